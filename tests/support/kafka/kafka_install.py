"""Brings what a broker needs to this machine: Java and Maven from Debian's packages, the jars from
Maven Central. Everything fetched lives in one folder of the user's cache, never in the tree.

home()/lib         the jars named by pom.xml
home()/formatted   an empty data folder, as Kafka's own tool formats it
home()/*.jsa       the classes of a broker that has run, mapped by later ones: they start faster
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
JARS = re.findall(r"<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)",
                  (HERE / "pom.xml").read_text(encoding="utf-8"))
VERSION = dict(JARS)["kafka_2.13"]
JAVA_MIN = 17
PACKAGES = {"java": "openjdk-17-jre-headless", "mvn": "maven"}
MAVEN_SECONDS = 600
# Any well-formed id will do: these brokers never meet.
CLUSTER_ID = "V2Vpci10ZXN0LWJyb2tlcg"


class BrokerError(Exception):
    """What went wrong, for the user."""


def home():
    """The folder of what is fetched; other jars get another folder."""
    override = os.environ.get("WEIR_KAFKA_HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    digest = hashlib.sha256(repr(JARS).encode()).hexdigest()[:8]
    return pathlib.Path(override or cache).resolve() / (
        f"kafka-{VERSION}-{digest}" if override else f"weir/kafka-{VERSION}-{digest}")


def say(text):
    print(f"kafka: {text}", file=sys.stderr, flush=True)


def java():
    """A Java that is new enough, or None."""
    found = [shutil.which("java")] + sorted(
        str(path) for path in pathlib.Path("/usr/lib/jvm").glob("*/bin/java"))
    for candidate in found:
        if candidate:
            # No JVM is started only to ask: every JDK has a release file beside its bin folder.
            release = pathlib.Path(candidate).resolve().parent.parent / "release"
            with contextlib.suppress(OSError):
                version = re.search(r'JAVA_VERSION="(\d+)', release.read_text())
                if version and int(version[1]) >= JAVA_MIN:
                    return candidate
    return None


def _install_packages():
    missing = [PACKAGES[name] for name, found in
               (("java", java()), ("mvn", shutil.which("mvn"))) if not found]
    if not missing:
        return
    as_root = [] if os.getuid() == 0 else ["sudo"]
    if not shutil.which("apt-get") or (as_root and not shutil.which("sudo")):
        raise BrokerError(f"install {' and '.join(missing)} first, as root: this needs Java "
                          f"{JAVA_MIN} or newer and Maven")
    say(f"installing {' '.join(missing)}")
    _run([*as_root, "apt-get", "update", "-q"], "apt-get update")
    _run([*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q",
          "--no-install-recommends", *missing], f"installing {' '.join(missing)}")


def _run(command, what, seconds=MAVEN_SECONDS, **options):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        raise BrokerError(f"{what}: not done after {seconds} s") from None
    except OSError as error:
        raise BrokerError(f"{what}: {error}") from None
    if done.returncode != 0:
        raise BrokerError(f"{what}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def class_path(folder=None):
    return ":".join(sorted(str(jar) for jar in ((folder or home()) / "lib").glob("*.jar")))


def java_command(main, arguments, options=(), folder=None, log="log4j2.properties"):
    return [java(), *options, f"-Dlog4j2.configurationFile={HERE / log}", "-cp",
            class_path(folder), main, *map(str, arguments)]


def class_archive():
    """Where the classes of a broker that ran under this very JVM are kept."""
    jvm = pathlib.Path(java()).resolve().parent.parent / "lib/server/libjvm.so"
    about = jvm.stat()
    key = hashlib.sha256(f"{jvm} {about.st_size} {about.st_mtime_ns}".encode()).hexdigest()[:12]
    return home() / f"classes-{key}.jsa"


@contextlib.contextmanager
def locked():
    """One process installs, others wait for it."""
    home().parent.mkdir(parents=True, exist_ok=True)
    with open(home().parent / "install.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install():
    """Fetches what is missing; quick when nothing is."""
    if (home() / "formatted").exists() and java():
        return
    with locked():
        _install_packages()
        if (home() / "formatted").exists():
            return
        say(f"fetching Kafka {VERSION} from Maven Central to {home()}")
        with tempfile.TemporaryDirectory(dir=home().parent, prefix="fetching-") as name:
            new = pathlib.Path(name, "new")
            new.mkdir()
            _run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"),
                  "dependency:copy-dependencies", f"-DoutputDirectory={new / 'lib'}"],
                 "fetching Kafka with Maven")
            _format(new)
            shutil.rmtree(home(), ignore_errors=True)
            new.rename(home())


def _format(new):
    """Formats a data folder once: each broker starts with a copy, which saves it a JVM's start."""
    properties = new / "format.properties"
    properties.write_text(
        "node.id=1\nprocess.roles=broker,controller\ncontroller.quorum.voters=1@127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
        f"log.dirs={new / 'formatting'}\n", encoding="utf-8")
    _run(java_command("kafka.tools.StorageTool", ["format", "-t", CLUSTER_ID, "-c", properties],
                      folder=new), "formatting a data folder", 120)
    (new / "formatting").rename(new / "formatted")
    properties.unlink()
