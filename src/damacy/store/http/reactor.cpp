#include "damacy/store/http/reactor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "damacy/core/error.h"

namespace damacy::http {
namespace {

constexpr long kConnectionsKept = 1024;
constexpr std::size_t kEventsAtOnce = 64;

bool is_connection(int descriptor) noexcept {
  int protocol = 0;
  ::socklen_t bytes = sizeof protocol;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) == 0 && protocol == IPPROTO_TCP;
}

}  // namespace

Reactor::Reactor() : curl_(curl()) {
  multi_ = curl_.multi_init();
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event wake{};
  wake.events = EPOLLIN;
  wake.data.fd = wake_;
  if (multi_ == nullptr || epoll_ < 0 || wake_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &wake) != 0) {
    const int failed = errno;
    if (multi_ != nullptr) curl_.multi_cleanup(multi_);
    if (epoll_ >= 0) ::close(epoll_);
    if (wake_ >= 0) ::close(wake_);
    throw Error(Status::oom, "cannot start a network thread: no memory, or no file descriptor", "memory")
        .with_errno(failed);
  }
  const auto set = [&](int option, auto value) { static_cast<void>(curl_.multi_setopt(multi_, option, value)); };
  set(curl_multi_option::max_connections_kept, kConnectionsKept);
  set(curl_multi_option::socket_function, &Reactor::on_socket);
  set(curl_multi_option::socket_data, static_cast<void*>(this));
  set(curl_multi_option::timer_function, &Reactor::on_timer);
  set(curl_multi_option::timer_data, static_cast<void*>(this));
}

Reactor::~Reactor() {
  curl_.multi_cleanup(multi_);
  ::close(epoll_);
  ::close(wake_);
}

bool Reactor::add(void* handle) noexcept {
  const auto set = [&](int option, auto value) { static_cast<void>(curl_.easy_setopt(handle, option, value)); };
  set(curl_option::close_socket_function, &Reactor::on_close);
  set(curl_option::close_socket_data, static_cast<void*>(this));
  return curl_.multi_add_handle(multi_, handle) == 0;
}

void Reactor::remove(void* handle) noexcept {
  curl_.multi_remove_handle(multi_, handle);
}

void Reactor::wake_up() noexcept {
  if (is_awake_.exchange(true)) return;
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_, &one, sizeof one) == 0);
}

void Reactor::act(int socket, int events) noexcept {
  int running = 0;
  curl_.multi_socket_action(multi_, socket, events, &running);
}

// libcurl starts what was added when its timer ends.
void Reactor::act_if_due() noexcept {
  if (timer_ > std::chrono::steady_clock::now()) return;
  timer_ = Time::max();  // libcurl sets it anew, if it needs one
  act(kSocketTimeout, 0);
}

void Reactor::turn(std::chrono::milliseconds most, const Ended& ended) noexcept {
  using std::chrono::milliseconds;
  act_if_due();
  stop_watching();
  if (timer_ != Time::max())  // rounded up: a wait that ends before the timer would be made again
    most =
        std::clamp(std::chrono::ceil<milliseconds>(timer_ - std::chrono::steady_clock::now()), milliseconds(0), most);
  std::array<epoll_event, kEventsAtOnce> events;
  const int count =
      ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), static_cast<int>(most.count()));
  is_awake_ = true;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd == wake_) {
      std::uint64_t wakes = 0;
      static_cast<void>(::read(wake_, &wakes, sizeof wakes) == 0);
      continue;
    }
    const auto has = [&](std::uint32_t flags) { return (event.events & flags) != 0; };
    act(event.data.fd, (has(EPOLLIN | EPOLLHUP) ? kSelectIn : 0) | (has(EPOLLOUT) ? kSelectOut : 0) |
                           (has(EPOLLERR) ? kSelectError : 0));
  }
  act_if_due();
  int left = 0;
  while (const CurlMessage* const message = curl_.multi_info_read(multi_, &left)) {
    if (message->kind != kMessageDone) continue;
    void* const handle = message->easy;
    const int code = message->data.code;
    remove(handle);  // the message is gone with it
    ended(handle, code);
  }
}

int Reactor::on_socket(void*, int socket, int what, void* self, void*) noexcept {
  static_cast<Reactor*>(self)->watch(socket, what);
  return 0;
}

void Reactor::watch(int socket, int what) noexcept {
  std::erase(unwatched_, socket);
  epoll_event wanted{};
  wanted.data.fd = socket;
  wanted.events = ((what & kPollIn) != 0 ? EPOLLIN : 0u) | ((what & kPollOut) != 0 ? EPOLLOUT : 0u);
  if (what == kPollRemove) {
    const bool may_wait = std::erase(lookups_, socket) == 0;
    if (may_wait && !damacy::failure_of([&] { unwatched_.push_back(socket); })) return;
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, &wanted);
  } else if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &wanted) != 0 && errno == ENOENT) {
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &wanted);
    if (!is_connection(socket)) static_cast<void>(damacy::failure_of([&] { lookups_.push_back(socket); }));
  }
}

int Reactor::on_close(void* self, int socket) noexcept {
  static_cast<Reactor*>(self)->close(socket);
  return 0;
}

// The connection of a closed socket is watched as long as a forked child has it, and its end would be an event for
// ever. libcurl closes descriptors of name look-ups itself, right after it no longer wants them to be watched.
void Reactor::close(int socket) noexcept {
  epoll_event none{};
  if (std::erase(unwatched_, socket) > 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, &none);
  ::close(socket);
}

// Some may be closed by now, and are not there any more.
void Reactor::stop_watching() noexcept {
  epoll_event none{};
  for (const int socket : unwatched_) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, &none);
  unwatched_.clear();
}

int Reactor::on_timer(void*, long ms, void* self) noexcept {
  auto& reactor = *static_cast<Reactor*>(self);
  reactor.timer_ = ms < 0 ? Time::max() : std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  return 0;
}

}  // namespace damacy::http
