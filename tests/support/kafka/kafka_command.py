"""The command scripts/kafka."""

import argparse
import pathlib
import subprocess
import sys

import kafka_broker
import kafka_install
import kafka_wire

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEFAULT_DIR = ROOT / "build/kafka"
DEFAULT_PORT = 9092
NOT_RUNNING = 3

DESCRIPTION = f"""\
Starts and stops one real Apache Kafka {kafka_install.VERSION} broker (KRaft, one node) on
127.0.0.1 for tests and examples. What is missing is installed first: Java and Maven from Debian's
packages, the broker's jars (Apache License 2.0) from Maven Central into
{kafka_install.home()}.
That needs the network once; a start takes three or four seconds then.
"""
EPILOG = """\
examples:
  scripts/kafka start                          prints 127.0.0.1:9092
  scripts/kafka topic create flights --partitions 4
  scripts/kafka topic describe flights
  scripts/kafka stop                           the data stays; start goes on with it
  scripts/kafka stop --remove                  and the data with it

  scripts/kafka start --dir /tmp/k --port 0 --set message.max.bytes=20000
  scripts/kafka tool console-consumer --bootstrap-server 127.0.0.1:9092 --topic flights \\
    --from-beginning --isolation-level read_committed --timeout-ms 3000

exit codes: 0 done; 1 failed, the reason is on standard error; 2 wrong arguments;
3 (status, topic) no broker runs in the folder.
"""


def _setting(text):
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not key=value")
    return key, value


def _port(text):
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no port")
    return int(text)


def _proxied(text):
    if text == "free":
        return True
    own, colon, told = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"'{text}' is neither B:C nor 'free'")
    return _port(own), _port(told)


def _parser():
    parser = argparse.ArgumentParser(
        prog="scripts/kafka", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, text):
        one = commands.add_parser(name, help=text, description=text)
        if name != "tool" and name != "install":
            one.add_argument("--dir", default=str(DEFAULT_DIR), metavar="FOLDER",
                             help="the broker's folder: data, log, pid (default: build/kafka)")
        return one

    command("install", "installs and fetches what is missing, starts nothing")
    start = command("start", "starts a broker, or goes on with the folder's data, ports and "
                    "settings; prints host:port once it answers")
    start.add_argument("--port", type=_port, metavar="A",
                       help=f"where clients connect; 0 chooses a free one (default: the folder's, "
                       f"else {DEFAULT_PORT})")
    start.add_argument("--proxied-port", type=_proxied, metavar="B:C",
                       help="a second listener on B that tells its clients to connect to C, where "
                       "a proxy listens that forwards to B; 'free' chooses free ports")
    start.add_argument("--set", type=_setting, action="append", metavar="KEY=VALUE", default=[],
                       help="a property of the server; may be repeated")
    start.add_argument("--heap-mb", type=int, metavar="MB",
                       help=f"the JVM's largest heap (default: {kafka_broker.HEAP_MB})")
    start.add_argument("--java-option", action="append", metavar="OPTION", default=[],
                       help="for the JVM, as --java-option=-XX:…; may be repeated")
    start.add_argument("--fresh", action="store_true",
                       help="kill the folder's broker and remove its data first")
    start.add_argument("--at-most", type=int, metavar="SECONDS",
                       help="end the broker by itself after that time, should stop be forgotten")
    stop = command("stop", "ends the folder's broker: SIGTERM, and SIGKILL when that does not end "
                   f"it within {kafka_broker.STOP_SECONDS} s")
    stop.add_argument("--kill", action="store_true", help="SIGKILL at once")
    stop.add_argument("--remove", action="store_true", help="remove the folder, too")
    command("status", "says whether a broker runs, where, its pid and memory")

    topic = command("topic", "makes, shows and deletes topics")
    topic.add_argument("action", choices=("create", "list", "describe", "grow", "delete"))
    topic.add_argument("name", nargs="?")
    topic.add_argument("--bootstrap", metavar="HOST:PORT",
                       help="ask this broker (default: the folder's)")
    topic.add_argument("--partitions", type=int, metavar="N",
                       help="of create (default: 1) and grow")
    topic.add_argument("--config", type=_setting, action="append", metavar="KEY=VALUE", default=[],
                       help="of create: a topic's setting; may be repeated")

    tool = command("tool", "runs a command line tool of Kafka itself: "
                   f"{', '.join(kafka_broker.TOOLS)}, or any class of it")
    tool.add_argument("name")
    tool.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


def _start(options):
    broker = kafka_broker.Broker.load(options.dir)
    if broker and options.fresh:
        broker.remove()
        broker = None
    asked = {"port": options.port or None, "heap_mb": options.heap_mb,
             "at_most_s": options.at_most, "settings": dict(options.set) or None,
             "java_options": options.java_option or None,
             "proxied": list(options.proxied_port)
             if isinstance(options.proxied_port, tuple) else None}
    asked = {key: value for key, value in asked.items() if value is not None}
    if broker is None:
        broker = kafka_broker.Broker(
            options.dir, port=DEFAULT_PORT if options.port is None else options.port,
            proxied=options.proxied_port, settings=asked.get("settings"),
            heap_mb=options.heap_mb or kafka_broker.HEAP_MB,
            java_options=options.java_option, at_most_s=options.at_most)
    else:
        if "settings" in asked:
            kafka_broker.check_settings(asked["settings"])
        differing = [key for key, value in asked.items() if broker.options[key] != value]
        if options.proxied_port is True and not broker.options["proxied"]:
            differing.append("proxied")
            asked["proxied"] = [kafka_broker.free_port(), kafka_broker.free_port()]
        if differing and broker.alive():
            raise kafka_install.BrokerError(
                f"a broker runs in {options.dir} (pid {broker.pid}) with other options "
                f"({', '.join(differing)}); stop it first")
        broker.options.update(asked)
    broker.start()
    print(broker.bootstrap)
    if broker.options["proxied"]:
        listens, forwards = broker.proxied_ports[1], broker.proxied_ports[0]
        kafka_install.say(f"for a proxy that listens on {listens} and forwards to {forwards}")
    return 0


def _stop(options):
    broker = kafka_broker.Broker.load(options.dir)
    if broker is None or not broker.alive():
        kafka_install.say(f"no broker runs in {options.dir}")
    elif options.kill:
        broker.kill()
    elif not broker.stop():
        kafka_install.say(f"SIGTERM did not end it within {kafka_broker.STOP_SECONDS} s: killed")
    if broker and options.remove:
        broker.remove()
    return 0


def _status(options):
    broker = kafka_broker.Broker.load(options.dir)
    if broker is None or not broker.alive():
        print(f"no broker runs in {options.dir}")
        return NOT_RUNNING
    print(f"Kafka {kafka_install.VERSION} on {broker.bootstrap}, pid {broker.pid}, "
          f"{broker.memory_mb()} MB, folder {broker.folder}")
    if broker.options["proxied"]:
        print(f"proxied: listens on {broker.proxied_ports[0]}, tells its clients "
              f"{broker.proxied_bootstrap}")
    return 0


def _topic(options):
    bootstrap = options.bootstrap
    if not bootstrap:
        broker = kafka_broker.Broker.load(options.dir)
        if broker is None or not broker.alive():
            kafka_install.say(f"no broker runs in {options.dir}: scripts/kafka start, or name "
                              "another with --bootstrap")
            return NOT_RUNNING
        bootstrap = broker.bootstrap
    with kafka_wire.Client(bootstrap) as client:
        if options.action == "list":
            for name in client.topics():
                print(name)
        elif options.action == "create":
            client.create_topic(options.name, options.partitions or 1, dict(options.config))
        elif options.action == "grow":
            client.create_partitions(options.name, options.partitions)
        elif options.action == "delete":
            client.delete_topic(options.name)
        else:
            _describe(client, options.name)
    return 0


def _describe(client, topic):
    leaders = client.metadata([topic])[topic]
    print(f"{'partition':>9} {'leader':>6} {'earliest':>12} {'last stable':>12} "
          f"{'high watermark':>14}")
    for partition, leader in leaders.items():
        print(f"{partition:>9} {leader:>6} {client.earliest(topic, partition):>12} "
              f"{client.last_stable_offset(topic, partition):>12} "
              f"{client.high_watermark(topic, partition):>14}")


def _tool(options):
    done = kafka_broker.run_tool(options.name, options.arguments, seconds=None, capture=False)
    return 0 if done.returncode == 0 else 1


def main(arguments=None):
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "topic":
        if options.action != "list" and not options.name:
            parser.error(f"topic {options.action}: which one?")
        if options.action == "grow" and not options.partitions:
            parser.error("topic grow: --partitions N is missing")
    try:
        if options.command == "install":
            kafka_install.install()
            return 0
        return {"start": _start, "stop": _stop, "status": _status, "topic": _topic,
                "tool": _tool}[options.command](options)
    except (kafka_install.BrokerError, kafka_wire.KafkaError, OSError,
            subprocess.SubprocessError) as error:
        kafka_install.say(str(error))
        return 1
    except KeyboardInterrupt:
        return 1


if __name__ == "__main__":
    sys.exit(main())
