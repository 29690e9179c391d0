"""The RPC pools of an instance: what the egress is told of them, and where workers find it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from trace_platform.app.instance.settings import RpcProviderSettings, Settings
from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.node_url import parse_url, secrets_in
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.rpc.config import PoolConfig, ProviderConfig


def rpc_endpoints(
    egress_url: str, token: SecretFile, ca: str, pools: Collection[str]
) -> Callable[[str], RpcEndpoint]:
    """Where a worker asks the nodes of each pool: always the egress, with the token of the day."""

    def endpoint(pool: str) -> RpcEndpoint:
        if pool not in pools:
            known = ", ".join(sorted(pools)) or "none"
            raise InvalidConfig(
                f"there is no RPC pool '{pool}' (known: {known})",
                hint=f"set TRACE_RPC_{pool.upper()} or rpc_pools.{pool} in config.toml, and start"
                " the instance again; 'demo' is there while `trace demo` runs",
            )
        return RpcEndpoint(f"{egress_url}/pools/{pool}", token, ca)

    return endpoint


def pool_configs(settings: Settings, secret: Callable[[str], str | None]) -> list[PoolConfig]:
    """What the egress serves. Raise InvalidConfig when a URL is none."""
    return [
        PoolConfig(
            name,
            tuple(_provider(name, each, secret) for each in pool.providers),
            pool.chain_id,
        )
        for name, pool in settings.rpc_pools.items()
    ]


def missing_keys(settings: Settings, secret: Callable[[str], str | None]) -> list[str]:
    """The names of keys that pools ask for and that are not set."""
    wanted = {
        each.key_secret
        for pool in settings.rpc_pools.values()
        for each in pool.providers
        if each.key_secret is not None
    }
    return sorted(name for name in wanted if secret(name) is None)


def shown_keys(pools: Sequence[PoolConfig]) -> list[str]:
    """The providers, as POOL/PROVIDER, whose keys can be read on the way: they are asked over
    http:// on another machine. A warning and no more: the key is its owner's, and nodes in a
    network of one's own often speak nothing else."""
    return [
        f"{pool.name}/{each.name}" for pool in pools for each in pool.providers if each.shows_key
    ]


def _provider(
    pool: str, given: RpcProviderSettings, secret: Callable[[str], str | None]
) -> ProviderConfig:
    key = secret(given.key_secret) if given.key_secret is not None else None
    config = ProviderConfig(
        name=given.name,
        url=given.url,
        key=key,
        key_name=given.key_secret or _key_in_url(pool, given),
        lacks_key=given.key_secret is not None and key is None,
        requests_per_second=given.requests_per_second,
        max_concurrency=given.max_concurrency,
        max_batch=given.max_batch,
        priority=given.priority,
    )
    parse_url(config.full_url)
    return config


def _key_in_url(pool: str, given: RpcProviderSettings) -> str | None:
    """A URL that may hold a key is claimed by the names of its pool and provider."""
    return f"{pool}/{given.name}" if secrets_in(parse_url(given.url)) else None
