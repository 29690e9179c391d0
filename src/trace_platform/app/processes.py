"""The composition root: settings become drivers, drivers become processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from trace_platform.app.instance.close_home import close_home, set_umask
from trace_platform.app.instance.databases import READ_ONLY, data_database, dsn
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.named_secrets import NamedSecrets
from trace_platform.app.instance.open_instance import HOST, Instance, open_instance
from trace_platform.app.instance.rotatable_secret import RotatableSecret
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.app.supervise.log import configure_logging
from trace_platform.app.supervise.served import served, tell_ready
from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.lite.certificates import ensure_certificates

if TYPE_CHECKING:
    from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
    from trace_platform.drivers.https import Listen
    from trace_platform.drivers.lite.local_store import LocalStore
    from trace_platform.operators.spark.session import SparkRuntime

log = structlog.get_logger()


def run(name: str, home: Home) -> None:
    """Run one process in the foreground until it is told to stop."""
    start = PROCESSES.get(name)
    if start is None:
        raise InvalidConfig(f"there is no process '{name}'", hint=f"one of: {', '.join(NAMES)}")
    configure_logging(name)
    settings = load_settings(home)
    close_home(home, settings.bucket)
    set_umask(writes_datasets=name in _WRITE_DATASETS)
    instance = open_instance(home, settings)
    with served(home, name):
        start(home, settings, instance)


def _dispatcher(home: Home, settings: Settings, instance: Instance) -> None:
    import uvloop

    from trace_platform.dispatcher.dispatcher import Secrets
    from trace_platform.dispatcher.run_loops import Tuning
    from trace_platform.dispatcher.serve import serve
    from trace_platform.drivers.http_invoker import HttpInvoker
    from trace_platform.drivers.lite.pem_signer import PemSigner
    from trace_platform.drivers.lite.pg_dead_letters import PgDeadLetters
    from trace_platform.drivers.lite.pgqueue import PgQueueSender
    from trace_platform.drivers.postgres.database import Database

    state = Database(dsn(home, settings, instance, "trace_dispatcher"))
    uvloop.run(
        serve(
            listen=_listen(home, instance, "dispatcher"),
            state=state,
            # Whoever asks about alerts does not wait for long when it is away.
            data=Database(
                dsn(home, settings, instance, "trace_data_janitor"), max_connections=2, wait_s=3
            ),
            queue=PgQueueSender(state),
            dead_letters=PgDeadLetters(state),
            store=_store(home),
            signer=PemSigner(home.secrets / "task_keys"),
            invoker=HttpInvoker(),
            secrets=Secrets(
                worker_tokens=RotatableSecret(home.secrets, "worker_token").accepted,
                service_token=home.secret("service_token"),
                user_token=home.secret("user_token"),
                named=NamedSecrets(home).get,
            ),
            runtimes=settings.runtime_registry(),
            bucket=settings.bucket,
            scratch_bucket=settings.scratch_bucket,
            tuning=Tuning(**settings.dispatcher.model_dump()),
            on_ready=_ready(home, "dispatcher"),
            beside_dags=settings.operators.beside_dags,
            runs=_pending_runs(home, settings),
        )
    )


def _pending_runs(home: Home, settings: Settings) -> PendingRuns | None:
    from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
    from trace_platform.drivers.event_sink import open_sink

    lineage = settings.lineage
    if lineage.openlineage is None:
        return None
    named, secret = NamedSecrets(home), lineage.secret
    sink = open_sink(lineage.openlineage, lambda: named.get(secret) if secret else None)
    return PendingRuns(sink, lineage.namespace)


def _query(home: Home, settings: Settings, instance: Instance) -> None:
    import uvloop

    from trace_platform.app.instance.query_users import QueryUsers
    from trace_platform.query.protocol.messages import Limits
    from trace_platform.query.service.callers import Allowance
    from trace_platform.query.service.serve import Capacity, Places, serve

    asked = settings.query
    uvloop.run(
        serve(
            listen=_listen(home, instance, "query"),
            places=Places(
                dispatcher_url=instance.url("dispatcher"),
                store=_store(home),
                readable=[str(home.objects / settings.bucket)],
                export_bucket=settings.export_bucket,
                scratch=home.query,
                data=data_database(home, settings, instance, READ_ONLY),
                ca=home.tls / "ca.pem",
            ),
            service_token=home.secret("service_token"),
            find_user=QueryUsers(home).find,
            on_ready=_ready(home, "query"),
            capacity=Capacity(
                concurrency=asked.concurrency,
                max_waiting=asked.max_waiting,
                per_caller=asked.per_user,
                limits=Limits(
                    timeout_s=asked.timeout_seconds,
                    memory_mb=asked.memory_mb,
                    spill_mb=asked.spill_mb,
                    threads=asked.threads,
                    hot_mb=asked.hot_mb,
                ),
                allowance=Allowance(
                    user_timeout_s=asked.timeout_seconds,
                    task_timeout_s=asked.task_timeout_seconds,
                ),
            ),
        )
    )


def _rpc(home: Home, settings: Settings, instance: Instance) -> None:
    import uvloop

    from trace_platform.app.instance.rpc_endpoints import pool_configs, shown_keys
    from trace_platform.rpc.key_claims import DispatcherClient
    from trace_platform.rpc.serve import serve

    pools = pool_configs(settings, NamedSecrets(home).get)
    for provider in shown_keys(pools):
        log.warning("key_over_http", provider=provider, hint="ask it over https://")

    async def run() -> None:
        registry = DispatcherClient(
            instance.url("dispatcher"), home.secret("service_token"), home.tls / "ca.pem"
        )
        try:
            await serve(
                listen=_listen(home, instance, "rpc"),
                pools=pools,
                registry=registry,
                # Of this home, not of this process: after a kill its keys are its own at once.
                holder=f"{socket.gethostname()}/{home.secret('rpc_holder')[:16]}",
                worker_tokens=RotatableSecret(home.secrets, "worker_token").accepted,
                user_token=home.secret("user_token"),
                on_ready=_ready(home, "rpc"),
            )
        finally:
            await registry.close()

    uvloop.run(run())


def _worker(home: Home, settings: Settings, instance: Instance) -> None:
    from trace_platform.app.instance.rpc_endpoints import rpc_endpoints
    from trace_platform.drivers.lite.pgqueue import PgQueueReceiver
    from trace_platform.drivers.lite.worker_identity import take_identity
    from trace_platform.drivers.query_endpoint import QueryEndpoint
    from trace_platform.drivers.queue import source_queue
    from trace_platform.operators.own.load_code import CodeLoader
    from trace_platform.operators.spark.session import SparkRuntime
    from trace_platform.worker.dispatcher_client import DispatcherClient
    from trace_platform.worker.resources import Resources
    from trace_platform.worker.serve import Line, Worker

    runtime = settings.runtime_registry().get(settings.worker.runtime)
    if runtime.queue is None:
        raise InvalidConfig(f"no worker serves the runtime {runtime.name}: it has no queue")
    spark = SparkRuntime(
        home.spark,
        master=settings.spark.master,
        conf=settings.spark.conf,
        secret=home.secret("spark_secret"),
    )
    if settings.worker.prewarm:
        threading.Thread(target=_warm_up, args=(spark,), name="warm-up", daemon=True).start()
    ca = home.tls / "ca.pem"
    queue_dsn, sources = dsn(home, settings, instance, "trace_queue"), source_queue(runtime.queue)
    slots = settings.worker
    dispatcher = DispatcherClient(instance.url("dispatcher"), home.secret("worker_token"), ca)
    worker = Worker(
        identity=take_identity(home.workers, socket.gethostname()),
        runtime=runtime.name,
        tasks=Line(slots.slots, PgQueueReceiver(queue_dsn), runtime.queue, is_sources=False),
        sources=Line(slots.source_slots, PgQueueReceiver(queue_dsn), sources, is_sources=True),
        dispatcher=dispatcher,
        resources=Resources(
            _store(home),
            rpc_endpoints(
                instance.url("rpc"),
                home.secret_file("worker_token"),
                ca.read_text(),
                settings.known_pools,
            ),
            spark,
            data_database(home, settings, instance, "trace_data_writer"),
            code=CodeLoader(
                home.workers / "code",
                dispatcher.operator_code,
                allowed=settings.operators.beside_dags,
            ),
            query=lambda token: QueryEndpoint(instance.url("query"), token, ca.read_text()),
            secrets=NamedSecrets(home).get,
        ),
    )
    try:
        worker.run(_ready(home, "worker"))
    finally:
        spark.stop()


def _scheduler(home: Home, settings: Settings, instance: Instance) -> None:
    from trace_platform.scheduler.dispatcher_client import DispatcherClient
    from trace_platform.scheduler.serve import Scheduler

    dispatcher = DispatcherClient(
        instance.url("dispatcher"), home.secret("service_token"), home.tls / "ca.pem"
    )
    try:
        Scheduler(dispatcher).run(_ready(home, "scheduler"))
    finally:
        dispatcher.close()


def _gateway(home: Home, settings: Settings, instance: Instance) -> None:
    import uvloop

    from trace_platform.app.instance.login_sessions import LoginSessions
    from trace_platform.app.instance.query_users import QueryUsers
    from trace_platform.drivers.https import Listen
    from trace_platform.gateway.serve import CONSOLE, Allowance, Behind, Gateway, serve

    asked = settings.gateway
    listen = Listen(asked.host, instance.port("gateway"), asked.certificate, asked.key)

    async def run() -> None:
        gateway = Gateway(
            listen,
            names=["localhost", "127.0.0.1", "[::1]", *asked.hosts],
            behind=Behind(
                urls={name: instance.url(name) for name in ("dispatcher", "query", "rpc")},
                ca=home.tls / "ca.pem",
                owner_token=home.secret("user_token"),
                service_token=home.secret("service_token"),
            ),
            sessions=LoginSessions(home, asked.session_hours * 3600),
            find_user=QueryUsers(home).find,
            console=asked.console or CONSOLE,
            allowance=Allowance(
                requests_per_second=asked.requests_per_second,
                burst=4 * asked.requests_per_second,
                query_s=settings.query.timeout_seconds + 30,
            ),
        )
        await serve(gateway, listen, _ready(home, "gateway"))

    uvloop.run(run())


# All that an instance has besides Postgres. What they import is imported when they run: whoever
# supervises them reads the names alone.
PROCESSES = {
    "dispatcher": _dispatcher,
    "rpc": _rpc,
    "worker": _worker,
    "query": _query,
    "scheduler": _scheduler,
    # The last to start is the first to stop: who asks from outside is told so while the others run.
    "gateway": _gateway,
}
NAMES = tuple(PROCESSES)
# The dispatcher by operators that it runs itself.
_WRITE_DATASETS = ("dispatcher", "worker")


def _warm_up(spark: SparkRuntime) -> None:
    """The first task finds a warm session; should this fail, that task tries again."""
    try:
        spark.warm_up()
    except Exception as error:
        # Also when the worker is told to stop meanwhile.
        log.warning("warm_up_failed", reason=str(error).partition("\n")[0])


def _store(home: Home) -> LocalStore:
    from trace_platform.drivers.lite.local_store import LocalStore

    return LocalStore(str(home.objects))


def _listen(home: Home, instance: Instance, name: str) -> Listen:
    from trace_platform.drivers.https import Listen

    files = ensure_certificates(home.tls)
    return Listen(HOST, instance.port(name), files.server, files.key)


def _ready(home: Home, name: str) -> Callable[[], None]:
    return lambda: tell_ready(home, name)
