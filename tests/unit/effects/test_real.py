"""All effects together."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from penstock.effects.counters import Counted
from penstock.effects.real import RealEffects
from penstock.errors import EffectFailed
from penstock.policy.rules.effect_contract import Effects, ForkSpec, ScriptSpec, WebhookSpec

ALLOWING = ScriptSpec(("/bin/sh", "-c", """echo '{"decision":"allow"}'"""), timeout=60.0)


def test_they_are_what_rules_ask_for():
    async def main() -> None:
        real = RealEffects(clock=lambda: 0.0)
        effects: Effects = real
        assert effects.may_pass("k", 1, 60.0)
        assert not effects.may_pass("k", 1, 60.0)
        assert effects.cached(b"k") is None
        effects.store(b"k", b"{}", 60.0)
        assert effects.cached(b"k") == b"{}"
        assert real.metrics() == {}
        effects.count("n", 2.0)
        assert real.metrics() == {"n": Counted(1, 2.0)}
        await effects.pause(0.0)
        assert (await effects.run_script(ALLOWING, b"{}")).decision == "allow"
        with pytest.raises(EffectFailed):
            await effects.ask_webhook(WebhookSpec("http://127.0.0.1/"), b"{}")
        effects.notify(WebhookSpec("http://127.0.0.1/"), b"{}")
        with pytest.raises(EffectFailed):
            effects.fork(ForkSpec(argv=("x",)), b"{}")
        await real.close()

    asyncio.run(main())


def test_after_the_end_nothing_is_allowed_and_nothing_is_begun():
    async def main() -> None:
        effects = RealEffects()
        await effects.close()
        with pytest.raises(EffectFailed):
            await effects.run_script(ALLOWING, b"{}")
        with pytest.raises(EffectFailed):
            await effects.ask_webhook(WebhookSpec("https://example.com/"), b"{}")
        effects.notify(WebhookSpec("https://example.com/"), b"{}")
        effects.fork(ForkSpec(argv=("x",)), b"{}")
        await effects.close()

    asyncio.run(main())


def test_work_has_a_time_limit():
    async def main() -> None:
        effects = RealEffects()

        async def seven() -> int:
            return 7

        assert await effects.within(60.0, seven()) == 7
        endless = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await effects.within(0.0, endless)
        assert endless.cancelled()

    asyncio.run(main())


def test_work_side_by_side_keeps_its_order_and_its_errors():
    async def main() -> None:
        effects = RealEffects()
        first = asyncio.get_running_loop().create_future()

        async def second() -> int:
            first.set_result(1)
            return 2

        async def third() -> int:
            raise ValueError("no")

        found = await effects.together([first, second(), third()])
        assert found[:2] == [1, 2]
        assert isinstance(found[2], ValueError)

    asyncio.run(main())


def test_cancelling_cancels_all_that_runs_side_by_side():
    async def main() -> None:
        works = [asyncio.get_running_loop().create_future() for _ in range(3)]
        task = asyncio.ensure_future(RealEffects().together(works))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(work.cancelled() for work in works)

    asyncio.run(main())


def loaded_by(source: str) -> set[str]:
    listing = f"import sys; {source}; print(*(name for name in sys.modules if name.startswith('penstock.')))"
    command = [sys.executable, "-c", listing]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_nothing_loads_that_no_rule_asked_for():
    loaded = loaded_by("from penstock.effects.real import RealEffects; RealEffects().count('n', 1.0)")
    ours = {name for name in loaded if name.startswith("penstock.effects.")}
    assert ours == {"penstock.effects.real", "penstock.effects.counters"}
    assert not any(name.startswith(("penstock.net", "penstock.relay")) for name in loaded)


MODULES = "addresses cache counters fork pause rate_limit script verdict_json webhook".split()


@pytest.mark.parametrize("name", MODULES)
def test_each_module_can_be_imported_alone(name):
    loaded = loaded_by(f"import penstock.effects.{name}")
    assert not any(module.startswith(("penstock.upstream.", "penstock.downstream.")) for module in loaded)
