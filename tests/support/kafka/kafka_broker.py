"""Starts, ends and kills one real Kafka broker (KRaft, one node) on loopback.

    with kafka_broker.temporary(settings={"message.max.bytes": 10000}) as broker:
        kafka_wire.Client(broker.bootstrap).create_topic("in", partitions=4)

A broker lives in a folder: broker.json (how it was started, and its pid), server.properties, data,
broker.log. It outlives the process that started it, unless told otherwise; whoever knows the
folder can stop it, and start it again with the same ports, settings and data. Standard library
only.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import kafka_install
import kafka_wire
from kafka_install import BrokerError

START_SECONDS = 90   # the bound of a start that takes three or four on an idle machine
STOP_SECONDS = 20    # from SIGTERM to SIGKILL
GONE_SECONDS = 20    # from SIGKILL until the kernel has taken the process away
POLL_S = 0.02
HEAP_MB = 384
LOG_LINES_SHOWN = 15
DIE_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]
SHARED_DIR_VARIABLE = "WEIR_KAFKA_DIR"

# What differs from Kafka's defaults, and why.
DEFAULTS = {
    # One node.
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    # Small and quick to start.
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 1,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "log.index.size.max.bytes": 1 << 20,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    # Nothing waits for what will not come.
    "group.initial.rebalance.delay.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    # After SIGKILL the next start waits until the dead one's session has run out.
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3000,
    # A missing topic is an error, and rows with old timestamps stay.
    "auto.create.topics.enable": "false",
    "log.retention.ms": -1,
}
# A broker with users has a listener for them; whoever connects to the others may do everything.
SECURED = {
    "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
OWNED = ("process.roles", "node.id", "listeners", "advertised.listeners", "log.dirs",
         "controller.quorum.voters", "controller.listener.names", "inter.broker.listener.name",
         "listener.security.protocol.map")
# C1 and C2 as usual: a broker under load needs the second compiler.
JAVA_OPTIONS = ("-Xms64m", "-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=160m")
TOOLS = {
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}


def free_port():
    """A port outside the range that outgoing connections take theirs from: it stays free while the
    process that listens on it is dead."""
    for _ in range(100):
        port = random.SystemRandom().randrange(10000, 32000)
        if _is_free(port):
            return port
    raise BrokerError("no free port between 10000 and 32000")


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does
        with contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
    return False


def check_settings(settings):
    """Refuses the server properties that follow from a broker's other options."""
    owned = sorted(set(settings) & set(OWNED))
    if owned:
        raise BrokerError(f"cannot set {', '.join(owned)}: it follows from folder and ports")


class Broker:
    """The broker of one folder, running or not. Thread: confined to one.

    port             of the ordinary listener; 0 chooses a free one
    proxied          (B, C): a second listener on B that tells its clients to connect to C, where a
                     proxy listens; True chooses free ports
    settings         server properties beside or instead of DEFAULTS
    users            {name: password}: a third listener takes these (SASL/PLAIN), each of whom may do
                     what kafka_wire.Client.allow() has granted and nothing else
    at_most_s        it is ended after so many seconds, whoever forgets to
    die_with_parent  it is killed when the process (the thread) that started it ends
    """

    def __init__(self, folder, port=0, proxied=None, settings=None, users=None, heap_mb=HEAP_MB,
                 java_options=(), at_most_s=None, die_with_parent=False):
        check_settings(settings or {})
        self.folder = pathlib.Path(folder).resolve()
        if proxied is True:
            proxied = (free_port(), free_port())
        self.options = {
            "port": port or free_port(), "proxied": list(proxied) if proxied else None,
            "controller_port": free_port(), "settings": dict(settings or {}),
            "users": dict(users or {}), "secured_port": free_port() if users else None,
            "heap_mb": heap_mb,
            "java_options": list(java_options), "at_most_s": at_most_s, "pid": None}
        self._die_with_parent = die_with_parent
        self._process = None

    @classmethod
    def load(cls, folder):
        """The broker that was started in the folder; None if there was none."""
        file = pathlib.Path(folder) / "broker.json"
        if not file.exists():
            return None
        broker = cls(folder)
        broker.options.update(json.loads(file.read_text(encoding="utf-8")))
        return broker

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def port(self):
        return self.options["port"]

    @property
    def bootstrap(self):
        """For clients: host:port."""
        return f"127.0.0.1:{self.port}"

    @property
    def proxied_bootstrap(self):
        """For clients that shall go through the proxy, which listens here."""
        return f"127.0.0.1:{self.options['proxied'][1]}"

    @property
    def secured_bootstrap(self):
        """For clients that say which of the users they are."""
        return f"127.0.0.1:{self.options['secured_port']}"

    @property
    def proxied_ports(self):
        """(B, C): the proxy listens on C and forwards to B."""
        return tuple(self.options["proxied"])

    @property
    def pid(self):
        """Of the broker's JVM; None when it does not run."""
        pid = self.options["pid"]
        if pid is None:
            return None
        # The kernel gives numbers anew: the command must be ours. One that is ending has none, but
        # keeps ports and the lock of its data until its last thread is gone.
        process = pathlib.Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if not command:
                _, name, state = re.split(r"[()]", (process / "stat").read_text(), maxsplit=2)
                threads = len(os.listdir(process / "task"))
                return pid if name == "java" and (state.split()[0] != "Z" or threads > 1) else None
            if str(self.folder / "server.properties").encode() in command.split(b"\0"):
                return pid
        return None

    def alive(self):
        if self._process:
            self._process.poll()
        return self.pid is not None

    def start(self, seconds=START_SECONDS):
        """Starts it and waits until it answers, with coordinators of groups and transactions."""
        if self.alive():
            return
        kafka_install.install()
        archive = kafka_install.class_archive()
        if not archive.exists():
            with kafka_install.locked():
                if not archive.exists():
                    _record_classes(archive)
        self._launch([f"-XX:SharedArchiveFile={archive}"], seconds)

    def _launch(self, java_options, seconds):
        for port in (self.port, self.options["controller_port"],
                     *(self.options["proxied"] or [])[:1],
                     *([self.options["secured_port"]] if self.options["users"] else [])):
            if not _is_free(port):
                raise BrokerError(f"port {port} of 127.0.0.1 is taken; choose another")
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder / "data"
        if not data.exists():
            unfinished = self.folder / "data.new"
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(kafka_install.home() / "formatted", unfinished)
            unfinished.rename(data)
        properties = self.folder / "server.properties"
        properties.write_text(self._properties(), encoding="utf-8")
        command = kafka_install.java_command(
            "kafka.Kafka", [properties],
            [*JAVA_OPTIONS, f"-Xmx{self.options['heap_mb']}m", *java_options,
             *self.options["java_options"]])
        if self._die_with_parent:
            command = [*DIE_WITH_PARENT, *command]
        limit = self.options["at_most_s"]
        if limit:
            command = ["timeout", "-k", str(STOP_SECONDS), str(limit), *command]
            if self._die_with_parent:
                command = [*DIE_WITH_PARENT, *command]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log, cwd=self.folder, start_new_session=True)
        try:
            self._find_jvm(below_timeout=bool(limit))
            self._save()
            if not kafka_wire.wait_until_up(self.bootstrap, seconds, self.alive):
                raise self._start_error(f"does not answer after {seconds} s")
            with kafka_wire.Client(self.bootstrap, timeout_s=seconds) as client:
                self._wait_for_coordinators(client)
        except (OSError, kafka_wire.KafkaError) as error:
            raise self._start_error(str(error)) from None

    def _wait_for_coordinators(self, client):
        """Until each partition of the topics of groups and of transactions has been loaded, and
        the broker has producer ids to give."""
        client.new_producer_id()
        settings = {**DEFAULTS, **self.options["settings"]}
        # Java's hash of a name of one letter is the letter, so successive ones cover all.
        for i in range(int(settings["offsets.topic.num.partitions"])):
            client.group_offsets(chr(ord("a") + i))
        for i in range(int(settings["transaction.state.log.num.partitions"])):
            try:
                client.describe_transaction(chr(ord("a") + i))
            except kafka_wire.KafkaError as error:
                if error.name != "TRANSACTIONAL_ID_NOT_FOUND":
                    raise

    def _find_jvm(self, below_timeout):
        """Notes the pid of the JVM: its launchers become it by exec, except timeout(1)."""
        parent = self._process.pid
        deadline = time.monotonic() + STOP_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            self.options["pid"] = parent
            if below_timeout:
                children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text()
                self.options["pid"] = int(children.split()[0]) if children.split() else None
            name = ""
            with contextlib.suppress(OSError):
                name = pathlib.Path(f"/proc/{self.options['pid']}/comm").read_text().strip()
            if name == "java":
                return
            time.sleep(POLL_S)
        raise self._start_error("has no process")

    def _start_error(self, what):
        if not self.alive():
            what = "ended at its start"
        self.kill()
        return BrokerError(f"the broker in {self.folder} {what}; the end of {self.log}:\n"
                           f"{self.log_tail()}")

    def _properties(self):
        controller = self.options["controller_port"]
        listeners = {"PLAINTEXT": (self.port, self.port)}
        if self.options["proxied"]:
            listeners["PROXIED"] = self.options["proxied"]
        protocols = {name: "PLAINTEXT" for name in [*listeners, "CONTROLLER"]}
        secured = {}
        if self.options["users"]:
            listeners["SECURED"] = (self.options["secured_port"],) * 2
            protocols["SECURED"] = "SASL_PLAINTEXT"
            users = " ".join(f'user_{name}="{word}"' for name, word in
                             self.options["users"].items())
            secured = {**SECURED, "listener.name.secured.plain.sasl.jaas.config":
                       f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"}
        lines = {
            "process.roles": "broker,controller", "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()),
            "listeners": ",".join([f"{name}://127.0.0.1:{bound}"
                                   for name, (bound, _) in listeners.items()] +
                                  [f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{told}"
                                             for name, (_, told) in listeners.items()),
            "log.dirs": self.folder / "data",
            **DEFAULTS, **secured, **self.options["settings"]}
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _save(self):
        unfinished = self.folder / "broker.json.new"
        unfinished.write_text(json.dumps(self.options, indent=1) + "\n", encoding="utf-8")
        unfinished.rename(self.folder / "broker.json")
        # For who reads no JSON: one line each.
        (self.folder / "bootstrap").write_text(self.bootstrap + "\n", encoding="utf-8")
        if self.options["proxied"]:
            (self.folder / "proxied").write_text(
                f"{self.proxied_ports[0]} {self.proxied_ports[1]}\n", encoding="utf-8")

    def stop(self, seconds=STOP_SECONDS):
        """SIGTERM, and SIGKILL when that has not ended it in time; False then."""
        pid = self.pid
        if pid is None:
            return True
        os.kill(pid, signal.SIGTERM)
        if self.wait_until_gone(seconds):
            return True
        self.kill()
        return False

    def kill(self):
        """SIGKILL, and wait until it is gone."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            if not self.wait_until_gone(GONE_SECONDS):
                raise BrokerError(f"process {pid} is still there {GONE_SECONDS} s after SIGKILL")

    def pause(self):
        """SIGSTOP: connections stay, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def restart(self, kill=False):
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def wait_until_gone(self, seconds):
        """False when it still runs after that time."""
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        if self._process:
            self._process.wait(GONE_SECONDS)  # timeout(1) ends a moment after its child
        return True

    def remove(self):
        """Kills it if it runs and removes its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def log(self):
        return self.folder / "broker.log"

    def log_tail(self):
        if not self.log.exists():
            return ""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return "\n".join("    " + line for line in lines)

    def memory_mb(self):
        """Resident memory of the JVM; None when it does not run."""
        with contextlib.suppress(OSError, TypeError):
            for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) // 1024
        return None


def _record_classes(archive):
    """Runs a broker for a moment that writes down its classes, rows and a transaction included."""
    kafka_install.say("recording the broker's classes, once, for quick starts")
    with tempfile.TemporaryDirectory(prefix="weir-kafka-") as folder:
        unfinished = archive.with_suffix(f".{os.getpid()}")
        broker = Broker(folder, die_with_parent=True)
        try:
            broker._launch([f"-XX:ArchiveClassesAtExit={unfinished}"], START_SECONDS)
            with kafka_wire.Client(broker.bootstrap) as client:
                client.create_topic("rows")
                transaction = kafka_wire.Transaction(client, "recording")
                transaction.produce("rows", 0, [b"row"])
                transaction.send_offset("recording", "rows", 0, 1)
                transaction.commit()
                client.read_partition("rows", 0)
                client.group_offsets("recording")
            if broker.stop(START_SECONDS) and unfinished.exists():
                unfinished.rename(archive)
            else:
                raise BrokerError(f"the JVM wrote no {unfinished}:\n{broker.log_tail()}")
        finally:
            broker.kill()


@contextlib.contextmanager
def temporary(**options):
    """A broker of one's own for a test: in a temporary folder, on free ports, killed and removed at
    the end, and with the process that started it."""
    folder = tempfile.mkdtemp(prefix="weir-kafka-")
    broker = Broker(folder, die_with_parent=True, **options)
    try:
        broker.start()
        yield broker
    finally:
        broker.remove()


@contextlib.contextmanager
def shared():
    """The one broker of a ctest run (weir_needs_kafka in cmake/weir.cmake), started again if a
    test left it dead; without one, in a test started by hand, a temporary one. It has a proxied
    listener. Give topics, groups and transactional ids names of your own: unique()."""
    folder = os.environ.get(SHARED_DIR_VARIABLE)
    if not folder:
        with temporary(proxied=True) as broker:
            yield broker
        return
    broker = Broker.load(folder)
    if broker is None:
        raise BrokerError(f"no broker was started in {folder}; start it with "
                          f"scripts/kafka start --dir {folder} --port 0 --proxied-port free, or "
                          f"unset {SHARED_DIR_VARIABLE} for one of the test's own")
    broker.start()
    yield broker


def unique(name):
    """A name that no other test of this broker has."""
    return f"{name}-{random.SystemRandom().randrange(1 << 40):010x}"


def run_tool(name, arguments, seconds=60, capture=True):
    """Runs one of Kafka's own command line tools (TOOLS, or a class): a CompletedProcess with text.
    A JVM's start each: for a second opinion, not for every check."""
    kafka_install.install()
    output = subprocess.PIPE if capture else None
    return subprocess.run(
        kafka_install.java_command(TOOLS.get(name, name), arguments,
                                   ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
                                   log="tool-log4j2.properties"),
        stdin=subprocess.DEVNULL if capture else None, stdout=output, stderr=output, text=True,
        timeout=seconds, check=False)


def hanging(bootstrap, topic):
    """[(topic, partition, producer id, first offset)] of the transactions that hang as Kafka's own
    tool finds them, however young they are; see kafka_wire.Client.hanging_transactions."""
    done = run_tool("transactions", ["--bootstrap-server", bootstrap, "find-hanging", "--topic",
                                     topic, "--max-transaction-timeout", "0"])
    head, *lines = done.stdout.splitlines() or [""]
    if done.returncode != 0 or head.split()[:3] != ["Topic", "Partition", "ProducerId"]:
        raise BrokerError(f"kafka-transactions find-hanging: {done.returncode}: {done.stdout}"
                          f"{done.stderr}")
    found = []
    for line in lines:
        name, partition, producer, _, _, start, *_ = line.split()
        found.append((name, int(partition), int(producer), int(start)))
    return found
