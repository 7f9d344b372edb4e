#include "worker/network/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {
namespace {

// A connection gets this many in a turn.
constexpr int kReadsPerTurn = 32;
// From this rest of a fragment on, what is read behind it is kept short: it is copied once more.
constexpr size_t kLongRestBytes = 8 << 10;
constexpr size_t kReadAheadBytes = 2 << 10;

// One system call moves up to this much; the network thread does this many in a turn.
constexpr size_t kFramesPerWrite = 64;
constexpr size_t kPiecesPerWrite = 256;
constexpr size_t kBytesPerWrite = 1 << 20;
constexpr int kWritesPerTurn = 8;
// A task has its own work to do: this many.
constexpr int kWritesPerTry = 2;

}  // namespace

void FrameWriter::Add(OutFrame frame) {
  std::lock_guard lock(mutex_);
  frames_.push_back(std::move(frame));
}

StatusOr<bool> FrameWriter::Write(Link* link, bool writable) {
  std::lock_guard lock(mutex_);
  if (is_closed_) return false;
  if (failure_) return *failure_;
  if (writable) is_blocked_ = false;
  StatusOr<bool> more = WriteLocked(link, kWritesPerTurn);
  PollLocked();
  return more;
}

bool FrameWriter::TryWrite(Link* link) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (is_closed_ || is_blocked_) return true;  // nobody sends it; the network thread does
  StatusOr<bool> more = failure_ ? *failure_ : WriteLocked(link, kWritesPerTry);
  if (!more.ok()) {
    failure_ = more.status();
    return false;
  }
  PollLocked();
  return !*more;
}

void FrameWriter::Close() {
  std::lock_guard lock(mutex_);
  is_closed_ = true;
  frames_.clear();
}

StatusOr<bool> FrameWriter::WriteLocked(Link* link, int writes_max) {
  if (is_blocked_) return false;
  for (int i = 0; i < writes_max; ++i) {
    if (link != nullptr) link->TakeFrames(kFramesPerWrite, kBytesPerWrite, &frames_);
    if (frames_.empty()) return false;
    std::array<iovec, kPiecesPerWrite> pieces;
    size_t count = 0;
    size_t skip_bytes = head_written_bytes_;
    size_t total_bytes = 0;
    const auto add = [&](const char* data, size_t size) {
      const size_t skipped = std::min(skip_bytes, size);
      skip_bytes -= skipped;
      if (size == skipped || count == pieces.size()) return;
      pieces[count++] = {const_cast<char*>(data) + skipped, size - skipped};
      total_bytes += size - skipped;
    };
    for (auto frame = frames_.begin(); frame != frames_.end() && count < pieces.size(); ++frame) {
      add(frame->header.data(), kFrameHeaderBytes);
      for (const std::string_view piece : frame->payload) add(piece.data(), piece.size());
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t result = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (result < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return UnavailableError(strerror(errno));
      is_blocked_ = true;
      return false;
    }
    WrittenLocked(static_cast<size_t>(result));
    if (static_cast<size_t>(result) < total_bytes) {
      is_blocked_ = true;  // the next attempt would find no room
      return false;
    }
  }
  return true;
}

void FrameWriter::WrittenLocked(size_t bytes) {
  bytes += head_written_bytes_;
  while (!frames_.empty() && bytes >= frames_.front().size_bytes()) {
    bytes -= frames_.front().size_bytes();
    frames_.pop_front();
  }
  head_written_bytes_ = bytes;
}

void FrameWriter::PollLocked() {
  const uint32_t events = is_blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (std::exchange(epoll_events_, events) == events) return;
  epoll_event event{};
  event.events = events;
  event.data.ptr = epoll_data_;
  WEIR_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd_, &event) == 0);
}

Connection::Connection(Socket socket, std::shared_ptr<Link> link, HandshakeHandler* handler)
    : state_(State::kConnecting),
      socket_(std::move(socket)),
      link_(std::move(link)),
      handler_(handler),
      decoder_(this) {}

Connection::Connection(Socket socket, std::string peer_address, HandshakeHandler* handler)
    : state_(State::kAwaitingHello),
      socket_(std::move(socket)),
      peer_address_(std::move(peer_address)),
      handler_(handler),
      decoder_(this) {}

Status Connection::FinishConnect(std::string hello) {
  const int error = ConnectError(fd());
  if (error != 0) return UnavailableError(strerror(error));
  state_ = State::kAwaitingWelcome;
  Send(FrameKind::kHello, hello);
  return {};
}

void Connection::Accept(std::shared_ptr<Link> link) {
  link_ = std::move(link);
  Send(FrameKind::kWelcome, {});
  Open();
}

void Connection::Open() {
  state_ = State::kOpen;
  link_->Open(writer_);
}

void Connection::Refuse(std::string_view reason) {
  state_ = State::kRefusing;
  Send(FrameKind::kRefused, reason.substr(0, kControlPayloadBytesMax));
}

void Connection::Send(FrameKind kind, std::string_view payload) {
  FrameHeader header;
  header.kind = kind;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  auto text = std::make_unique<std::string>(payload);
  const std::string_view bytes = *text;
  writer_->Add({EncodeFrameHeader(header), {bytes}, bytes.size(), std::move(text), nullptr});
}

Status Connection::Read(std::span<char> buffer) {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const std::span<char> rest = decoder_.fragment_rest();
    const size_t ahead_bytes = rest.size() < kLongRestBytes ? buffer.size() : kReadAheadBytes;
    const std::array<iovec, 2> targets = {iovec{rest.data(), rest.size()},
                                          iovec{buffer.data(), ahead_bytes}};
    const ssize_t result = readv(fd(), targets.data(), targets.size());
    if (result == 0) return UnavailableError("closed by the peer");
    if (result < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return UnavailableError(strerror(errno));
    }
    const size_t bytes = static_cast<size_t>(result);
    const size_t rest_bytes = std::min(bytes, rest.size());
    if (state_ != State::kRefusing) {
      if (rest_bytes > 0) WEIR_RETURN_IF_ERROR(decoder_.FragmentBytesRead(rest_bytes));
      WEIR_RETURN_IF_ERROR(decoder_.Consume({buffer.data(), bytes - rest_bytes}));
    }
    if (bytes < rest.size() + ahead_bytes) break;
  }
  const size_t rest_bytes = decoder_.fragment_rest().size();
  WakeAt(rest_bytes >= kLongRestBytes ? rest_bytes : 1);
  return {};
}

void Connection::WakeAt(size_t bytes) {
  if (std::exchange(wake_at_bytes_, bytes) == bytes) return;
  // Where that fails it stays a wake-up for every packet.
  const int value = static_cast<int>(bytes);
  setsockopt(fd(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value));
}

StatusOr<bool> Connection::Write(bool writable) {
  if (state_ == State::kConnecting) return false;
  return writer_->Write(state_ == State::kOpen ? link_.get() : nullptr, writable);
}

void Connection::Close() {
  state_ = State::kClosed;
  writer_->Close();
  socket_.Close();
  if (link_) link_->connection = nullptr;
  link_.reset();
}

StatusOr<char*> Connection::BeginFragment(const FrameHeader& header) {
  if (state_ != State::kOpen) return DataLossError("the peer sends data before the handshake");
  return link_->BeginFragment(header);
}

Status Connection::EndFragment(const FrameHeader& header) { return link_->EndFragment(header); }

Status Connection::OnFrame(const FrameHeader& header, std::string_view payload) {
  switch (state_) {
    case State::kOpen:
      return link_->OnFrame(header, payload);
    case State::kAwaitingHello:
      if (header.kind != FrameKind::kHello) break;
      if (StatusOr<HelloFrame> hello = DecodeHello(payload); hello.ok()) {
        hello_ = std::move(hello).value();
        handler_->OnHello(this, hello_);
      } else {
        Refuse(hello.status().message());
      }
      return {};
    case State::kAwaitingWelcome:
      if (header.kind == FrameKind::kRefused) {
        return UnavailableError(Concat("refused by the peer: ", payload));
      }
      if (header.kind != FrameKind::kWelcome) break;
      Open();
      handler_->OnWelcome(this);
      return {};
    case State::kRefusing:
      return {};
    case State::kConnecting:
    case State::kHeld:
    case State::kClosed:
      break;
  }
  return DataLossError(Concat("a frame of kind ", static_cast<int>(header.kind),
                              " does not belong into the handshake"));
}

}  // namespace weir
