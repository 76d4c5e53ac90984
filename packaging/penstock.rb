# Made by scripts/make_share.py. The release fills in the digest of its wheel.
class Penstock < Formula
  include Language::Python::Virtualenv

  desc "MCP proxy that makes chosen tools vanish and passes every other byte untouched"
  homepage "https://github.com/penstock-mcp/penstock"
  url "https://github.com/penstock-mcp/penstock/releases/download/v1.0.0/penstock-1.0.0-py3-none-any.whl", using: :nounzip
  sha256 "SHA256_OF_THE_WHEEL"
  license "MIT"

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    wheel = buildpath/"penstock-#{version}-py3-none-any.whl"
    # google-re2 from source needs abseil and a compiler: only wheels.
    system "python3.13", "-m", "pip", "--python=#{libexec}/bin/python", "install",
           "--only-binary=:all:", wheel
    bin.install_symlink libexec/"bin/penstock"
    man1.install_symlink libexec/"share/man/man1/penstock.1"
    bash_completion.install_symlink libexec/"share/bash-completion/completions/penstock"
    zsh_completion.install_symlink libexec/"share/zsh/site-functions/_penstock"
    fish_completion.install_symlink libexec/"share/fish/vendor_completions.d/penstock.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/penstock --version")
  end
end
