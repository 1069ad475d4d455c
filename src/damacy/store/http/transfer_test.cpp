// Transfers on network threads: turns, cancelling and the end, against a server that answers when the test says so.
#include "damacy/store/http/transfer.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/http/hedges.h"
#include "damacy/store/http/net_threads.h"

namespace damacy::http {
namespace {

constexpr std::string_view kHead = "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 8\r\n\r\n";

// Keeps connections open, and sends bytes to all whose request has come when the test says so.
class HeldServer {
 public:
  HeldServer() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = formatted("http://127.0.0.1:{}/x", ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~HeldServer() {
    {
      const Lock lock(mutex_);
      closing_ = true;
    }
    thread_.join();
    for (const pollfd& socket : sockets_) ::close(socket.fd);
    ::close(listener_);
  }
  const std::string& url() const { return url_; }

  void wait_for_requests(std::size_t count) {
    Lock lock(mutex_);
    changed_.wait(lock, [&]() DAMACY_REQUIRES(mutex_) { return requests_ >= count; });
  }
  std::size_t requests() {
    const Lock lock(mutex_);
    return requests_;
  }
  // To those that were asked and not answered. `ends`: the answer is whole with it.
  void send(std::string_view bytes, bool ends) {
    const Lock lock(mutex_);
    for (const int socket : asked_) ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (ends) asked_.clear();
  }
  // A whole answer, to the one that asked first or last.
  void answer(bool first, std::string_view body) {
    const Lock lock(mutex_);
    const int socket = first ? asked_.front() : asked_.back();
    for (const std::string_view bytes : {kHead, body}) ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::erase(asked_, socket);
  }
  // The end of what those get that were asked and not answered.
  void cut() {
    const Lock lock(mutex_);
    for (const int socket : asked_) ::shutdown(socket, SHUT_WR);
  }

 private:
  void serve() {
    for (;;) {
      std::vector<pollfd> ready;
      {
        const Lock lock(mutex_);
        if (closing_) return;
        ready = sockets_;
      }
      ready.push_back({listener_, POLLIN, 0});
      if (::poll(ready.data(), ready.size(), 5) <= 0) continue;
      const Lock lock(mutex_);
      for (const pollfd& one : ready) {
        if (one.revents == 0) continue;
        if (one.fd == listener_) {
          sockets_.push_back({::accept(listener_, nullptr, nullptr), POLLIN, 0});
          continue;
        }
        char request[4096];
        if (::recv(one.fd, request, sizeof request, 0) > 0) {
          asked_.push_back(one.fd);
          ++requests_;
          changed_.notify_all();
        } else {
          std::erase(asked_, one.fd);
          std::erase_if(sockets_, [&](const pollfd& socket) { return socket.fd == one.fd; });
          ::close(one.fd);
        }
      }
    }
  }

  int listener_;
  std::string url_;
  Mutex mutex_;
  Condition changed_;
  bool closing_ DAMACY_GUARDED_BY(mutex_) = false;
  std::size_t requests_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::vector<pollfd> sockets_;
  std::vector<int> asked_ DAMACY_GUARDED_BY(mutex_);
  std::thread thread_;
};

struct Memory {
  std::vector<std::byte> bytes = std::vector<std::byte>(8, std::byte{'-'});
  std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

bool is_whole(const Head& head, const Request&, const void*) {
  return head.status == 200;
}

Transfer asking(const HeldServer& server, Memory& memory) {
  return Transfer({server.url(), 0, memory.bytes, {}, {}, true}, &is_whole, nullptr);
}

// Of an origin whose answers come soon.
std::shared_ptr<Hedges> impatient() {
  const auto hedges = std::make_shared<Hedges>();
  for (int i = 0; i < 40; ++i) hedges->answered(std::chrono::milliseconds(1));
  return hedges;
}

Transfer hedged(const HeldServer& server, Memory& memory) {
  Request request{server.url(), 0, memory.bytes, {}, {}, true};
  request.hedges = impatient();
  return Transfer(std::move(request), &is_whole, nullptr);
}

TransferLimits limits(std::size_t most = 256) {
  return {std::chrono::seconds(5), std::chrono::seconds(5), {}, "", std::chrono::seconds(5), most};
}

SteadyTime end() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

TEST(Transfer, the_body_lands_and_its_end_is_told_once) {
  HeldServer server;
  Memory memory;
  std::atomic<int> ends{0};
  Transfer transfer = asking(server, memory);
  transfer.start(limits(), end(), [&] { ++ends; });
  server.wait_for_requests(1);
  EXPECT_EQ(ends, 0);
  server.send(kHead, false);
  server.send("01234567", true);
  transfer.wait();
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(transfer.code(), curl_code::ok);
  EXPECT_EQ(transfer.landed(), 8u);
  EXPECT_EQ(memory.text(), "01234567");
}

TEST(Transfer, a_late_one_is_sent_once_more_and_the_first_whole_answer_counts) {
  for (const bool is_first : {false, true}) {
    HeldServer server;
    Memory memory;
    std::atomic<int> ends{0};
    const auto counts = std::make_shared<NetworkCounts>();
    TransferLimits counted = limits();
    counted.counts = counts;
    Transfer transfer = hedged(server, memory);
    transfer.start(counted, end(), [&] { ++ends; });
    server.wait_for_requests(2);
    EXPECT_EQ(ends, 0);
    server.answer(is_first, is_first ? "01234567" : "abcdefgh");
    transfer.wait();
    EXPECT_EQ(memory.text(), is_first ? "01234567" : "abcdefgh");
    EXPECT_EQ(transfer.landed(), 8u);
    EXPECT_EQ(transfer.code(), curl_code::ok);
    EXPECT_TRUE(transfer.accepts());
    EXPECT_EQ(ends, 1);
    const NetworkCounts::Seen seen = counts->seen();
    EXPECT_EQ(seen.requests, 2);
    EXPECT_EQ(seen.hedged, 1);
    EXPECT_EQ(seen.hedges_won, is_first ? 0 : 1);
  }
}

TEST(Transfer, both_answers_at_once_are_one_answer) {
  for (int i = 0; i < 20; ++i) {
    HeldServer server;
    Memory memory;
    std::atomic<int> ends{0};
    Transfer transfer = hedged(server, memory);
    transfer.start(limits(), end(), [&] { ++ends; });
    server.wait_for_requests(2);
    server.send(kHead, false);
    server.send("01234567", true);
    transfer.wait();
    EXPECT_EQ(memory.text(), "01234567");
    EXPECT_EQ(transfer.landed(), 8u);
    EXPECT_EQ(ends, 1);
  }
}

TEST(Transfer, one_that_was_sent_twice_is_cancelled_with_both) {
  HeldServer server;
  Memory memory;
  std::atomic<int> ends{0};
  {
    Transfer transfer = hedged(server, memory);
    transfer.start(limits(), end(), [&] { ++ends; });
    server.wait_for_requests(2);
  }
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(memory.text(), "--------");
}

TEST(Transfer, a_head_that_was_cut_is_no_answer) {
  HeldServer server;
  Memory memory;
  Transfer transfer = asking(server, memory);
  transfer.start(limits(), end());
  server.wait_for_requests(1);
  server.send("HTTP/1.1 200 OK\r\nETag: \"a\"\r\n", false);
  server.cut();
  transfer.wait();
  EXPECT_EQ(transfer.head().status, 0);
  EXPECT_EQ(transfer.landed(), 0u);
}

TEST(Transfer, what_is_cancelled_in_its_body_lands_no_byte_afterwards) {
  HeldServer server;
  Memory cancelled, other;
  std::atomic<int> ends{0};
  Transfer kept = asking(server, other);
  kept.start(limits(), end());
  {
    Transfer transfer = asking(server, cancelled);
    transfer.start(limits(), end(), [&] { ++ends; });
    server.wait_for_requests(2);
    server.send(kHead, false);
    server.send("0123", false);
  }
  EXPECT_EQ(ends, 1);
  std::ranges::fill(cancelled.bytes, std::byte{'-'});
  server.send("4567", true);
  kept.wait();
  EXPECT_EQ(other.text(), "01234567");
  EXPECT_EQ(cancelled.text(), "--------");
}

TEST(Transfer, no_more_than_the_limit_are_under_way_to_an_origin) {
  HeldServer server;
  std::list<Memory> memory(12);
  std::list<Transfer> transfers;
  std::latch ended(9);
  for (Memory& to : memory) {
    transfers.emplace_back(Request{server.url(), 0, to.bytes, {}, {}, true}, &is_whole, nullptr);
    transfers.back().start(limits(3), end(), [&] { ended.count_down(); });
  }
  for (int i = 0; i < 3; ++i) transfers.pop_back();  // they wait for their turn
  for (std::size_t answered = 3; answered <= 9; answered += 3) {
    server.wait_for_requests(answered);
    EXPECT_EQ(server.requests(), answered);
    server.send(kHead, false);
    server.send("01234567", true);
  }
  for (Transfer& transfer : transfers) {
    transfer.wait();
    EXPECT_EQ(transfer.landed(), 8u) << transfer.problem();
  }
  EXPECT_EQ(server.requests(), 9u);
}

TEST(Transfer, an_answer_that_never_begins_ends_by_the_timer_of_its_first_byte) {
  HeldServer server;
  Memory memory;
  TransferLimits silent = limits();
  silent.first_byte_timeout = std::chrono::milliseconds(50);
  Transfer transfer = asking(server, memory);
  transfer.run(silent, end());
  EXPECT_TRUE(transfer.is_timed_out());
  EXPECT_EQ(transfer.problem(), "the server did not answer in time");
}

TEST(Transfer, as_many_are_under_way_as_the_window_of_the_origin_has) {
  HeldServer server;
  std::list<Memory> memory(40);
  std::list<Transfer> transfers;
  for (Memory& to : memory) {
    transfers.emplace_back(Request{server.url(), 0, to.bytes, {}, {}, true}, &is_whole, nullptr);
    transfers.back().start(limits(), end());
  }
  server.wait_for_requests(RequestWindow::kStart);
  EXPECT_EQ(server.requests(), RequestWindow::kStart);
  server.send("HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n", true);  // halves it
  server.wait_for_requests(40);
  server.send(kHead, false);
  server.send("01234567", true);
  for (Transfer& transfer : transfers) transfer.wait();
}

// A task that never ends by itself: libcurl waits for a server that does not answer.
class CountedTask final : public NetTask {
 public:
  explicit CountedTask(const std::string& url) : handle_(curl().easy_init()) {
    curl().easy_setopt(handle_, curl_option::url, url.c_str());
  }
  ~CountedTask() override { curl().easy_cleanup(handle_); }
  void* handle() const noexcept override { return handle_; }
  void begins(SteadyTime, std::size_t) noexcept override {}
  bool is_late(SteadyTime) const noexcept override { return false; }
  RequestWindow::End outcome(int) const noexcept override { return {}; }
  void ended(int code) noexcept override {
    code_ = code;
    ++ends_;
  }
  int code() const { return code_; }
  int ends() const { return ends_; }

 private:
  void* const handle_;
  std::atomic<int> code_{0}, ends_{0};
};

TEST(NetThreads, stopped_they_end_each_task_once_and_take_no_more) {
  HeldServer server;
  NetThreads threads;
  std::vector<std::shared_ptr<CountedTask>> tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(std::make_shared<CountedTask>(server.url()));
    threads.submit(tasks.back(), "origin", 2);
  }
  server.wait_for_requests(2);
  threads.stop();
  tasks.push_back(std::make_shared<CountedTask>(server.url()));
  threads.submit(tasks.back(), "origin", 2);
  for (const auto& task : tasks) {
    EXPECT_EQ(task->ends(), 1);
    EXPECT_EQ(task->code(), curl_code::aborted);
  }
}

TEST(NetThreads, their_number_follows_the_cores_or_the_setting) {
  EXPECT_EQ(NetThreads::count_of(nullptr, 1), 1u);
  EXPECT_EQ(NetThreads::count_of(nullptr, 7), 1u);
  EXPECT_EQ(NetThreads::count_of(nullptr, 8), 2u);
  EXPECT_EQ(NetThreads::count_of(nullptr, 200), 4u);
  EXPECT_EQ(NetThreads::count_of("3", 1), 3u);
  EXPECT_EQ(NetThreads::count_of("1000", 1), 64u);
  for (const char* const wrong : {"", "0", "-1", "2x"}) EXPECT_EQ(NetThreads::count_of(wrong, 8), 2u) << wrong;
}

}  // namespace
}  // namespace damacy::http
