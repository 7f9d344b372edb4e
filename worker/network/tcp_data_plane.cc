#include "worker/network/tcp_data_plane.h"

#include <pthread.h>

#include <map>
#include <utility>

#include "common/base/check.h"

namespace weir {

TcpDataPlane::TcpDataPlane(Options options)
    : options_(std::move(options)), mailbox_(std::make_shared<NetMailbox>()) {}

TcpDataPlane::~TcpDataPlane() { Stop(); }

Status TcpDataPlane::Start() {
  WEIR_CHECK(loop_ == nullptr);
  WEIR_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(options_.listen));
  WEIR_ASSIGN_OR_RETURN(Socket listener, Listen(address));
  WEIR_ASSIGN_OR_RETURN(address.port, LocalPort(listener.fd()));
  if (!options_.advertised_host.empty()) address.host = options_.advertised_host;
  address_ = ToString(address);
  loop_ = std::make_unique<NetLoop>(std::move(listener), options_.timeouts, mailbox_);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "net-0");
    loop_->Run();
  });
  return {};
}

void TcpDataPlane::Stop() {
  if (!thread_.joinable()) return;
  mailbox_->Post([this] { loop_->Stop(); });
  thread_.join();
  mailbox_->Close();
  loop_.reset();
}

DataPlane::Channels TcpDataPlane::StartGeneration(const Generation& generation,
                                                  std::function<void()> connected,
                                                  std::function<void(Status)> broken) {
  WEIR_CHECK(thread_.joinable());
  const GenerationKey key{generation.job, generation.generation};
  GenerationLinks links{key, generation.self, {}, {}, std::move(connected), std::move(broken)};
  Channels channels;
  std::map<WorkerName, IncomingLink*> from;
  for (const Receive& receive : generation.receives) {
    IncomingLink*& link = from[receive.from];
    if (link == nullptr) {
      links.incoming.push_back(std::make_shared<IncomingLink>(key, receive.from, mailbox_));
      link = links.incoming.back().get();
    }
    channels.receivers.push_back(link->MakeReceiver(receive.channel, receive.schema,
                                                    receive.partial_schema, receive.window_bytes));
  }
  std::map<WorkerName, OutgoingLink*> to;
  for (const Send& send : generation.sends) {
    OutgoingLink*& link = to[send.to];
    if (link == nullptr) {
      links.outgoing.push_back(
          std::make_shared<OutgoingLink>(key, send.to, send.data_address, mailbox_));
      link = links.outgoing.back().get();
    }
    channels.senders.push_back(link->MakeSender(send.channel, send.window_bytes));
  }
  mailbox_->Post([this, links = std::move(links)] { loop_->StartGeneration(links); });
  return channels;
}

void TcpDataPlane::EndGeneration(const JobId& job, weir::Generation generation,
                                 std::function<void()> ended) {
  mailbox_->Post([this, key = GenerationKey{job, generation}, ended = std::move(ended)] {
    loop_->EndGeneration(key, ended);
  });
}

}  // namespace weir
