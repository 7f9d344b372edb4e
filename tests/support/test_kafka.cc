#include "tests/support/test_kafka.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <librdkafka/rdkafka.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>

#include "common/base/concat.h"
#include "common/base/random.h"

namespace weir::test_kafka {
namespace {

constexpr int kTimeoutMs = 30'000;

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "test_kafka: " << what << std::endl;
  std::abort();
}

void Check(rd_kafka_resp_err_t error, const std::string& what) {
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(Concat(what, ": ", rd_kafka_err2str(error)));
}

std::ifstream OpenInBrokersFolder(const std::string& name) {
  const char* folder = std::getenv("WEIR_KAFKA_DIR");
  if (folder == nullptr) Fail("WEIR_KAFKA_DIR is not set: run this by ctest");
  std::ifstream file(Concat(folder, "/", name));
  if (!file) Fail(Concat("no file ", folder, "/", name, ": is the broker running?"));
  return file;
}

using Client = std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)>;

Client MakeConsumer(const std::string& group, const std::string& isolation) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  char text[512];
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"bootstrap.servers", Brokers()},
                                          {"group.id", group},
                                          {"enable.auto.commit", "false"},
                                          {"enable.partition.eof", "true"},
                                          {"isolation.level", isolation}}) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), text, sizeof(text)) !=
        RD_KAFKA_CONF_OK) {
      Fail(text);
    }
  }
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
  if (client == nullptr) Fail(text);
  rd_kafka_poll_set_consumer(client);
  return Client(client, rd_kafka_destroy);
}

int PartitionsOf(rd_kafka_t* client, const std::string& topic) {
  rd_kafka_topic_t* handle = rd_kafka_topic_new(client, topic.c_str(), nullptr);
  const rd_kafka_metadata_t* metadata = nullptr;
  Check(rd_kafka_metadata(client, 0, handle, &metadata, kTimeoutMs), "metadata");
  if (metadata->topic_cnt != 1) Fail("no topic " + topic);
  const int partitions = metadata->topics[0].partition_cnt;
  rd_kafka_metadata_destroy(metadata);
  rd_kafka_topic_destroy(handle);
  return partitions;
}

std::optional<std::string> Bytes(const void* data, size_t size) {
  if (data == nullptr) return std::nullopt;
  return std::string(static_cast<const char*>(data), size);
}

Row ReadRow(const rd_kafka_message_t* message) {
  Row row{.partition = message->partition,
          .key = Bytes(message->key, message->key_len),
          .value = Bytes(message->payload, message->len),
          .timestamp_ms = rd_kafka_message_timestamp(message, nullptr),
          .headers = {}};
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return row;
  const char* name = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  for (size_t i = 0;
       rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
       ++i) {
    row.headers.emplace_back(name, Bytes(value, size));
  }
  return row;
}

}  // namespace

std::string Brokers() {
  std::string brokers;
  std::getline(OpenInBrokersFolder("bootstrap"), brokers);
  return brokers;
}

std::string MakeTopic(int partitions, const std::map<std::string, std::string>& config) {
  Random random = Random::FromSystem();
  const std::string name = Concat("test-", random.HexName(12));
  Client client = MakeConsumer("test-topics", "read_committed");
  char text[512];
  rd_kafka_NewTopic_t* topic =
      rd_kafka_NewTopic_new(name.c_str(), partitions, 1, text, sizeof(text));
  if (topic == nullptr) Fail(text);
  for (const auto& [key, value] : config) {
    Check(rd_kafka_NewTopic_set_config(topic, key.c_str(), value.c_str()), key);
  }
  rd_kafka_queue_t* queue = rd_kafka_queue_new(client.get());
  rd_kafka_CreateTopics(client.get(), &topic, 1, nullptr, queue);
  rd_kafka_event_t* event = rd_kafka_queue_poll(queue, kTimeoutMs);
  if (event == nullptr) Fail("no answer to CreateTopics");
  Check(rd_kafka_event_error(event), "CreateTopics");
  size_t count = 0;
  const rd_kafka_topic_result_t** results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
  Check(rd_kafka_topic_result_error(results[0]), "CreateTopics " + name);
  rd_kafka_event_destroy(event);
  rd_kafka_queue_destroy(queue);
  rd_kafka_NewTopic_destroy(topic);
  return name;
}

std::vector<Row> Committed(const std::string& topic) {
  Client client = MakeConsumer("test-reader", "read_committed");
  const int partitions = PartitionsOf(client.get(), topic);
  rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(partitions);
  for (int p = 0; p < partitions; ++p) {
    rd_kafka_topic_partition_list_add(list, topic.c_str(), p)->offset = RD_KAFKA_OFFSET_BEGINNING;
  }
  Check(rd_kafka_assign(client.get(), list), "assign");
  rd_kafka_topic_partition_list_destroy(list);
  std::map<int32_t, std::vector<Row>> rows;
  int ended = 0;
  while (ended < partitions) {
    rd_kafka_message_t* message = rd_kafka_consumer_poll(client.get(), kTimeoutMs);
    if (message == nullptr) Fail("cannot read " + topic);
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      ++ended;
    } else {
      Check(message->err, "read " + topic);
      rows[message->partition].push_back(ReadRow(message));
    }
    rd_kafka_message_destroy(message);
  }
  rd_kafka_consumer_close(client.get());
  std::vector<Row> all;
  for (auto& [partition, some] : rows) all.insert(all.end(), some.begin(), some.end());
  return all;
}

Ends EndsOf(const std::string& topic, int32_t partition) {
  Ends ends;
  int64_t low = 0;
  Client committed = MakeConsumer("test-ends", "read_committed");
  Check(rd_kafka_query_watermark_offsets(committed.get(), topic.c_str(), partition, &low,
                                         &ends.stable, kTimeoutMs),
        "watermarks");
  Client all = MakeConsumer("test-ends", "read_uncommitted");
  Check(rd_kafka_query_watermark_offsets(all.get(), topic.c_str(), partition, &low, &ends.high,
                                         kTimeoutMs),
        "watermarks");
  return ends;
}

void CommitOffset(const std::string& group, const std::string& topic, int64_t offset,
                  const std::string& metadata) {
  Client client = MakeConsumer(group, "read_committed");
  rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_t* one = rd_kafka_topic_partition_list_add(list, topic.c_str(), 0);
  one->offset = offset;
  one->metadata = std::malloc(metadata.size());
  one->metadata_size = metadata.size();
  metadata.copy(static_cast<char*>(one->metadata), metadata.size());
  Check(rd_kafka_commit(client.get(), list, 0), "commit");
  rd_kafka_topic_partition_list_destroy(list);
}

Proxy::Proxy() {
  int target = 0;
  OpenInBrokersFolder("proxied") >> target >> port_;
  const char* source = std::getenv("WEIR_SOURCE_DIR");
  if (source == nullptr) Fail("WEIR_SOURCE_DIR is not set");
  int to_child[2];
  int from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) Fail("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], 1);
  std::vector<std::string> words = {
      "python3",     "-B",          Concat(source, "/tests/support/kafka/kafka_proxy.py"),
      "--listen",    Concat(port_), "--target",
      Concat(target)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  if (posix_spawnp(&pid, "python3", &actions, nullptr, arguments.data(), environ) != 0) {
    Fail("cannot start the proxy");
  }
  posix_spawn_file_actions_destroy(&actions);
  pid_ = pid;
  input_ = to_child[1];
  close(to_child[0]);
  close(from_child[1]);
  FILE* output = fdopen(from_child[0], "r");
  int listen = 0;
  int control = 0;
  if (std::fscanf(output, "listen %d control %d", &listen, &control) != 2) {
    Fail("the proxy did not start");
  }
  std::fclose(output);
  control_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(control));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(control_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    Fail("cannot reach the proxy");
  }
}

Proxy::~Proxy() {
  close(control_);
  close(input_);
  waitpid(pid_, nullptr, 0);
}

std::string Proxy::brokers() const { return Concat("127.0.0.1:", port_); }

std::string Proxy::Ask(const std::string& command) {
  const std::string line = Concat("{", command, "}\n");
  if (write(control_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    Fail("the proxy is gone");
  }
  std::string answer;
  char byte = 0;
  while (read(control_, &byte, 1) == 1 && byte != '\n') answer += byte;
  if (answer.empty() || answer.find("\"error\"") != std::string::npos) {
    Fail(Concat("the proxy to ", command, ": ", answer));
  }
  return answer;
}

int Proxy::Add(const std::string& rule) {
  const std::string answer = Ask("\"do\": \"add\", " + rule);
  return std::atoi(answer.c_str() + answer.find(':') + 1);
}
void Proxy::WaitFor(int rule) { Ask(Concat("\"do\": \"wait\", \"rule\": ", rule)); }
void Proxy::Release(int rule) { Ask(Concat("\"do\": \"release\", \"rule\": ", rule)); }

void WaitingExecutor::Post(std::function<void()> mail) {
  {
    std::lock_guard lock(mutex_);
    mail_.push_back(std::move(mail));
  }
  wake_.notify_one();
}

void WaitingExecutor::RunUntil(const std::function<bool()>& condition, int seconds_max) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_max);
  while (!condition()) {
    std::function<void()> mail;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait_until(lock, until, [this] { return !mail_.empty(); })) {
        Fail(Concat("nothing happened for ", seconds_max, " s"));
      }
      mail = std::move(mail_.front());
      mail_.pop_front();
    }
    mail();
  }
}

}  // namespace weir::test_kafka
