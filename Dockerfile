# Penstock alone, for upstreams at a URL. With npx and uvx inside: Dockerfile.node
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY packaging packaging
COPY src src
# EXTRAS=[redis] for several instances
ARG EXTRAS=
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".${EXTRAS}"

FROM python:3.13-slim
ARG VERSION=1.0.0
LABEL org.opencontainers.image.title="Penstock" \
      org.opencontainers.image.description="An MCP proxy that makes chosen tools vanish" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index /wheels/*.whl && rm -rf /wheels \
    && useradd --uid 10001 --create-home penstock
USER 10001
WORKDIR /home/penstock
EXPOSE 8808
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8808/healthz', timeout=2)"]
ENTRYPOINT ["penstock"]
