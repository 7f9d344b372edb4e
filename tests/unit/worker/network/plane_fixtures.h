#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/worker/network/element_fixtures.h"
#include "worker/network/frame_codec.h"
#include "worker/network/socket.h"
#include "worker/network/tcp_data_plane.h"

// Data planes of several workers in one process, and a peer that writes its bytes by itself.
namespace weir::network_test {

inline const JobId kJob("0123456789abcdef0123456789abcdef");

inline DataPlane::Receive ReceiveFrom(std::string from, ChannelId channel, int64_t window_bytes) {
  return {channel, WorkerName(std::move(from)), NumberAndText(), window_bytes};
}

// One generation on one worker, as its owner sees it.
class WorkerRun {
 public:
  WorkerRun(TcpDataPlane* plane, std::string self, uint64_t generation,
            std::vector<DataPlane::Receive> receives, std::vector<DataPlane::Send> sends)
      : plane_(plane), generation_(generation) {
    channels = plane->StartGeneration(
        {kJob, generation_, WorkerName(std::move(self)), std::move(receives), std::move(sends)},
        [this] {
          std::lock_guard lock(mutex_);
          is_connected_ = true;
          changed_.notify_all();
        },
        [this](Status status) {
          std::lock_guard lock(mutex_);
          broken_.push_back(std::move(status));
          changed_.notify_all();
        });
  }
  ~WorkerRun() { End(); }

  void WaitConnected() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_connected_; });
  }
  Status WaitBroken() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !broken_.empty(); });
    return broken_.front();
  }
  // The plane was stopped: nobody is there to end the generation.
  void Abandon() { is_ended_ = true; }
  // Returns when `ended` was called. How often the generation broke.
  size_t End() {
    if (!std::exchange(is_ended_, true)) {
      Gate ended;
      plane_->EndGeneration(kJob, generation_, [&ended] { ended.Notify(); });
      ended.Wait();
    }
    std::lock_guard lock(mutex_);
    return broken_.size();
  }
  bool is_connected() {
    std::lock_guard lock(mutex_);
    return is_connected_;
  }
  ChannelSender& sender(size_t i = 0) { return *channels.senders[i]; }
  ChannelReceiver& receiver(size_t i = 0) { return *channels.receivers[i]; }

  DataPlane::Channels channels;

 private:
  TcpDataPlane* const plane_;
  const Generation generation_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_connected_ = false;
  std::vector<Status> broken_;
  bool is_ended_ = false;
};

// The next element; `arrival` is what the receiver's waker notifies.
inline StreamElement WaitPop(ChannelReceiver& receiver, Gate& arrival) {
  StreamElement element;
  while (true) {
    StatusOr<bool> popped = receiver.TryPop(&element);
    EXPECT_TRUE(popped.ok()) << popped.status();
    if (!popped.ok() || *popped) return element;
    arrival.Wait();
  }
}

class PlaneTest : public ::testing::Test {
 protected:
  TcpDataPlane* StartPlane(TcpDataPlane::Options options = {}) {
    planes_.push_back(std::make_unique<TcpDataPlane>(std::move(options)));
    EXPECT_TRUE(planes_.back()->Start().ok());
    return planes_.back().get();
  }
  static DataPlane::Send SendTo(const TcpDataPlane& plane, std::string to, ChannelId channel,
                                int64_t window_bytes) {
    return {channel, WorkerName(std::move(to)), plane.address(), window_bytes};
  }

  std::vector<std::unique_ptr<TcpDataPlane>> planes_;
};

// A peer whose bytes the test writes. Waits, with a timeout that only a failing test sees.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const HostPort target = ParseHostPort(address).value();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(target.port);
    EXPECT_EQ(inet_pton(AF_INET, target.host.c_str(), &to.sin_addr), 1);
    EXPECT_EQ(connect(socket_.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    SetTimeout();
  }
  explicit RawPeer(Socket accepted) : socket_(std::move(accepted)) { SetTimeout(); }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the other side hung up
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void SendFrame(FrameKind kind, ChannelId channel = {}, std::string_view payload = {}) {
    FrameHeader header;
    header.kind = kind;
    header.channel = channel;
    Send(EncodeFrame(header, payload));
  }
  void SendHello(uint64_t generation, std::string from, std::string to) {
    SendFrame(FrameKind::kHello, {},
              EncodeHello({kJob, Generation(generation), WorkerName(std::move(from)),
                           WorkerName(std::move(to))})
                  .value());
  }
  void SendElement(ChannelId channel, std::string_view element, int64_t credit_bytes) {
    const FrameHeader header = FragmentHeader(channel, element.size(), credit_bytes, 0);
    Send(EncodeFrame(header, element.substr(0, header.payload_bytes)));
  }
  // The next frame from the other side, none when it hung up.
  std::optional<std::pair<FrameHeader, std::string>> Receive() {
    FrameHeaderBytes bytes;
    if (!ReceiveBytes(bytes.data(), bytes.size())) return std::nullopt;
    StatusOr<FrameHeader> header = DecodeFrameHeader(bytes);
    EXPECT_TRUE(header.ok()) << header.status();
    std::string payload(header->payload_bytes, '\0');
    if (!ReceiveBytes(payload.data(), payload.size())) return std::nullopt;
    return std::pair(*header, payload);
  }
  // "welcome", "refused: reason" or "closed".
  std::string ReceiveAnswer() {
    const auto frame = Receive();
    if (!frame) return "closed";
    if (frame->first.kind == FrameKind::kWelcome) return "welcome";
    EXPECT_EQ(frame->first.kind, FrameKind::kRefused);
    return "refused: " + frame->second;
  }

 private:
  void SetTimeout() {
    const timeval timeout{60, 0};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  bool ReceiveBytes(char* to, size_t size) {
    while (size > 0) {
      const ssize_t received = recv(socket_.fd(), to, size, 0);
      if (received <= 0) return false;
      to += received;
      size -= static_cast<size_t>(received);
    }
    return true;
  }

  Socket socket_;
};

}  // namespace weir::network_test
