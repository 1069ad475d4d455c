// Times and limits, against a server of a few lines. What servers may answer besides: tests/end_to_end/test_http.py.
#include "damacy/store/http/http_store.h"

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/http/curl.h"
#include "support/error_of.h"
#include "support/eventually.h"

namespace damacy::http {
namespace {

// Calls `answer` with each connection, whose request was read, and closes it.
class Server {
 public:
  explicit Server(std::function<void(int socket)> answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    uri_ = formatted("http://127.0.0.1:{}/data", ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    closing_ = true;
    thread_.join();
    ::close(listener_);
  }
  const std::string& uri() const { return uri_; }
  int requests() const { return requests_; }

 private:
  void serve() {
    while (!closing_) {
      pollfd ready{listener_, POLLIN, 0};
      if (::poll(&ready, 1, 20) != 1) continue;
      const int socket = ::accept(listener_, nullptr, nullptr);
      char request[4096];
      if (::recv(socket, request, sizeof request, 0) > 0) {
        ++requests_;
        answer_(socket);
      }
      ::close(socket);
    }
  }

  std::function<void(int)> answer_;
  int listener_;
  std::string uri_;
  std::atomic<bool> closing_{false};
  std::atomic<int> requests_{0};
  std::thread thread_;
};

bool send_all(int socket, std::string_view bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

constexpr std::string_view kHead =
    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9999/10000\r\nContent-Length: 10000\r\nETag: \"a\"\r\n\r\n";

TEST(HttpStore, a_body_that_trickles_ends_at_the_deadline) {
  Server server([](int socket) {
    send_all(socket, kHead);
    for (int i = 0; i < 500 && send_all(socket, std::string(20, 'x')); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  HttpSettings settings;
  settings.attempts = 1;
  settings.deadline = std::chrono::milliseconds(200);
  const auto store = make_http_store(server.uri(), settings);
  const auto begin = std::chrono::steady_clock::now();
  const Error error = error_of([&] { store->open("key"); });
  EXPECT_EQ(error.where().reason, "deadline") << error.what();
  EXPECT_EQ(error.where().key, "key");
  EXPECT_EQ(error.where().store, server.uri());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

// Notes what is asked for. The first address comes when the second one did, or a moment later.
class NotedService final : public Service {
 public:
  explicit NotedService(std::string root) : root_(std::move(root)) {}
  Address address(std::string_view key, Time) override {
    if (is_first_.exchange(false)) {
      first_came.set_value();
      static_cast<void>(second_came_.get_future().wait_for(std::chrono::milliseconds(200)));
    }
    const Lock lock(mutex_);
    keys_.emplace_back(key);
    if (key == "b") second_came_.set_value();
    return {formatted("{}/{}", root_, key), {}};
  }
  std::optional<Failure> refused(std::string_view, const Head&, std::string_view, bool, Failure usual) override {
    return usual;
  }
  std::vector<std::string> keys() const {
    const Lock lock(mutex_);
    return keys_;
  }

  std::promise<void> first_came;

 private:
  const std::string root_;
  std::promise<void> second_came_;
  std::atomic<bool> is_first_{true};
  mutable Mutex mutex_;
  std::vector<std::string> keys_ DAMACY_GUARDED_BY(mutex_);
};

TEST(HttpStore, who_comes_second_for_an_object_asks_for_others_behind_it) {
  const Server server([](int socket) { send_all(socket, kHead); });
  const auto service = std::make_shared<NotedService>(server.uri());
  const auto store = make_service_store("noted", service, {});
  std::thread first([&] { store->expect("a", {.bytes = 4}); });
  service->first_came.get_future().wait();
  for (const char* const key : {"a", "b"}) store->expect(key, {.bytes = 4});
  first.join();
  EXPECT_EQ(service->keys(), (std::vector<std::string>{"a", "b"}));
}

// In chunks, so that every byte that was asked for has landed before the first one too many comes.
TEST(HttpStore, a_body_that_is_too_long_is_asked_for_once_more_and_refused) {
  Server server([request = 0](int socket) mutable {
    const std::string_view head = "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nConnection: close\r\n";
    if (request++ == 0)
      send_all(socket, formatted("{}Content-Range: bytes 0-9/20\r\nContent-Length: 10\r\n\r\n0123456789", head));
    else
      send_all(socket, formatted("{}Content-Range: bytes 10-19/20\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "a\r\n0123456789\r\n2\r\nxx\r\n0\r\n\r\n",
                                 head));
  });
  HttpSettings settings;
  settings.head_bytes = 10;
  const auto object = make_http_store(server.uri(), settings)->open("key");
  std::vector<std::byte> bytes(10);
  const Error error = error_of([&] { object->read_exact(10, bytes); });
  EXPECT_EQ(error.where().reason, "range") << error.what();
  EXPECT_EQ(server.requests(), 3);
}

TEST(HttpStore, an_answer_that_ends_in_its_head_is_none) {
  Server server([](int socket) { send_all(socket, "HTTP/1.1 404 Not Found\r\nConte"); });
  HttpSettings settings;
  settings.attempts = 2;
  settings.deadline = std::chrono::milliseconds(200);
  const auto store = make_http_store(server.uri(), settings);
  const Error error = error_of([&] { store->open("key"); });
  EXPECT_EQ(error.where().reason, "io") << error.what();
  EXPECT_GE(server.requests(), 2);
}

TEST(HttpStore, what_is_known_of_an_object_is_asked_for_again_when_it_is_old) {
  Server server([](int socket) { send_all(socket, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"); });
  HttpSettings settings;
  const auto believing = make_http_store(server.uri(), settings);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(believing->open("key"));
  EXPECT_EQ(server.requests(), 1);
  settings.revalidate_after = std::chrono::milliseconds(0);
  const auto doubting = make_http_store(server.uri(), settings);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(doubting->stamp("key"));
  EXPECT_EQ(server.requests(), 4);
}

TEST(HttpStore, what_is_not_expected_any_more_and_was_not_sent_is_not_sent) {
  std::atomic<bool> may_answer{false};
  Server server([&](int socket) {
    while (!may_answer) std::this_thread::yield();
    send_all(socket, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  });
  HttpSettings settings;
  settings.max_requests = 1;
  const auto store = make_http_store(server.uri(), settings);
  for (const char* const key : {"a", "b"}) store->expect(key, {});
  store->unexpect("b");
  store->unexpect("c");
  may_answer = true;
  EXPECT_FALSE(store->open("a"));
  EXPECT_FALSE(store->open("d"));
  EXPECT_EQ(server.requests(), 2);
}

TEST(HttpStore, what_is_expected_and_old_is_asked_for_unless_it_is_the_same) {
  Server server([request = 0](int socket) mutable {
    if (request++ == 0)
      send_all(socket, "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 4\r\nConnection: close\r\n\r\n0123");
    else
      send_all(socket, "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nConnection: close\r\n\r\n");
  });
  HttpSettings settings;
  settings.revalidate_after = std::chrono::milliseconds(500);
  settings.counts = std::make_shared<NetworkCounts>();
  const auto store = make_http_store(server.uri(), settings);
  const auto object = store->open("key");
  std::this_thread::sleep_for(std::chrono::milliseconds(510));
  store->expect("key", {.bytes = 4});
  EXPECT_EQ(store->stamp("key"), object->stamp());
  EXPECT_EQ(settings.counts->seen().revalidated, 1);
  EXPECT_EQ(server.requests(), 2);
}

TEST(HttpStore, a_server_without_ranges_is_asked_for_more_than_was_expected) {
  Server server([](int socket) {
    send_all(socket, formatted("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 20000\r\nConnection: close\r\n\r\n{}",
                               std::string(20'000, 'x')));
  });
  const auto store = make_http_store(server.uri(), HttpSettings());
  store->expect("key", {.bytes = 1});
  const auto object = store->open("key");
  ASSERT_TRUE(object);
  std::vector<std::byte> bytes(20'000);
  object->read_exact(0, bytes);
  EXPECT_EQ(bytes.back(), std::byte{'x'});
  EXPECT_EQ(server.requests(), 2);
}

// Whole objects that are larger than the first bytes that are usually asked for.
TEST(HttpStore, the_bytes_of_an_object_stay_until_all_announced_reads_have_ended) {
  static constexpr std::size_t kBytes = 100'000;
  Server server([](int socket) {
    send_all(socket, formatted("HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes 0-{}/{}\r\n"
                               "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
                               kBytes - 1, kBytes, kBytes, std::string(kBytes, 'x')));
  });
  const auto store = make_http_store(server.uri(), HttpSettings());
  const auto read = [&] {
    std::vector<std::byte> bytes(kBytes);
    store->open("key")->read_exact(0, bytes);
    EXPECT_EQ(bytes.back(), std::byte{'x'});
    return server.requests();
  };
  for (const std::size_t reads : {1, 1, 0}) store->expect("key", {.bytes = kBytes + 1, .reads = reads});
  ASSERT_TRUE(store->open("key"));
  store->expect("key", {.bytes = kBytes + 1, .reads = 1});
  for (int ended = 0; ended < 2; ++ended) {
    EXPECT_EQ(read(), 1);
    store->unexpect("key");
  }
  const HeldBytes last = store->open("key")->held(0, kBytes);
  ASSERT_TRUE(last.owner);
  store->unexpect("key");
  EXPECT_FALSE(store->open("key")->held(0, kBytes).owner);
  EXPECT_EQ(read(), 2);
  EXPECT_EQ(last.bytes.back(), std::byte{'x'});
}

class ShiftedClock final : public Clock {
 public:
  Time now() const noexcept override { return SteadyClock().now() + shift.load(); }
  std::atomic<Time> shift{};
};

// An object of 100,000 bytes, each `byte`, of that version.
void send_object(int socket, char byte) {
  send_all(socket, formatted("HTTP/1.1 206 Partial Content\r\nETag: \"{}\"\r\nContent-Range: bytes 0-99999/100000\r\n"
                             "Content-Length: 100000\r\nConnection: close\r\n\r\n{}",
                             byte, std::string(100'000, byte)));
}

class KnownObjectTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 100'000;
  static constexpr Expectation kAgain = {.bytes = kBytes + 1, .reads = 1, .again = true};

  // Reads the object once, so that it is known without its bytes.
  KnownObjectTest() {
    store->expect("key", kAgain);
    EXPECT_TRUE(holds_bytes());
    store->unexpect("key");
    EXPECT_FALSE(holds_bytes());
    EXPECT_EQ(server.requests(), 1);
  }
  bool holds_bytes() const {
    const HeldBytes held = store->open("key")->held(0, kBytes);
    return held.owner && held.bytes.back() == std::byte{'x'};
  }

  HttpSettings settings() const {
    HttpSettings settings;
    settings.clock = clock;
    settings.counts = counts;
    return settings;
  }

  const std::shared_ptr<ShiftedClock> clock = std::make_shared<ShiftedClock>();
  const std::shared_ptr<NetworkCounts> counts = std::make_shared<NetworkCounts>();
  std::atomic<char> value{'x'};
  std::atomic<bool> is_busy{false}, is_held{false}, has_answered{false};
  Server server{[this](int socket) {
    for (int i = 0; is_held && i < 200; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    has_answered = true;
    if (is_busy.exchange(false))
      send_all(socket, "HTTP/1.1 503 Busy\r\nRetry-After: 30\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    else
      send_object(socket, value);
  }};
  const std::shared_ptr<Store> store = make_http_store(server.uri(), settings());
};

// Else it would be read when it is opened, one object after the other.
TEST_F(KnownObjectTest, is_not_expected_while_the_server_wants_no_request) {
  is_busy = true;
  std::jthread other([&] {
    store->expect("other", {.bytes = kBytes + 1});
    EXPECT_TRUE(store->open("other"));
  });
  ASSERT_TRUE(testing::eventually([&] { return counts->seen().repeated == 1; }));
  store->expect("key", kAgain);
  EXPECT_FALSE(holds_bytes());
  EXPECT_EQ(server.requests(), 2);
  clock->shift = std::chrono::minutes(1);
}

TEST_F(KnownObjectTest, is_asked_for_its_bytes_before_it_is_opened_where_they_are_wanted_again) {
  store->expect("key", {.bytes = kBytes + 1, .reads = 1});
  store->expect("key", {.bytes = kBytes - 1, .reads = 1, .again = true});  // it has more
  store->expect("key", {.bytes = kBytes + 1, .again = true});              // by no read
  for (int i = 0; i < 2; ++i) store->expect("key", kAgain);
  ASSERT_TRUE(testing::eventually([&] { return server.requests() == 2; }));
  for (int read = 0; read < 2; ++read) {
    EXPECT_TRUE(holds_bytes());
    store->unexpect("key");
  }
  EXPECT_FALSE(holds_bytes());
  EXPECT_EQ(server.requests(), 2);
}

// As a batch asks that has its bytes, while a later one waits for them.
TEST_F(KnownObjectTest, has_its_stamp_while_its_bytes_are_expected) {
  has_answered = false;
  is_held = true;
  store->expect("key", kAgain);
  EXPECT_TRUE(store->stamp("key"));
  EXPECT_FALSE(has_answered);
  is_held = false;
  EXPECT_TRUE(holds_bytes());
}

TEST_F(KnownObjectTest, is_asked_for_once_by_threads_that_open_it) {
  store->expect("key", kAgain);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_TRUE(holds_bytes()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(KnownObjectTest, is_as_known_as_before_when_no_read_wants_its_bytes_any_more) {
  store->expect("key", kAgain);
  store->unexpect("key");
  EXPECT_FALSE(holds_bytes());
  EXPECT_LE(server.requests(), 2);  // what was not sent is not sent
  std::vector<std::byte> bytes(kBytes);
  store->open("key")->read_exact(0, bytes);
  EXPECT_EQ(bytes.back(), std::byte{'x'});
}

TEST_F(KnownObjectTest, that_has_changed_meanwhile_is_an_error_and_opened_anew) {
  value = 'y';
  store->expect("key", kAgain);
  const Error error = error_of([&] { store->open("key"); });
  EXPECT_EQ(error.where().reason, "changed");
  EXPECT_EQ(error.where().key, "key");
  store->expect("key", kAgain);
  EXPECT_EQ(store->open("key")->version(), "\"y\"");
}

// No request says that it is as it was.
TEST(HttpStore, an_empty_object_that_is_wanted_again_is_as_old_as_before) {
  Server server([](int socket) {
    send_all(socket,
             "HTTP/1.1 416 Range Not Satisfiable\r\nETag: \"a\"\r\nContent-Range: bytes */0\r\n"
             "Content-Length: 0\r\nConnection: close\r\n\r\n");
  });
  HttpSettings settings;
  settings.revalidate_after = std::chrono::milliseconds(300);
  const auto store = make_http_store(server.uri(), settings);
  for (int i = 0; i < 2; ++i) {
    store->expect("key", {.bytes = 4, .reads = 1, .again = true});
    ASSERT_TRUE(store->open("key"));
    store->unexpect("key");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  ASSERT_TRUE(store->open("key"));
  EXPECT_EQ(server.requests(), 2);
}

TEST(HttpStore, an_object_that_has_changed_is_asked_for_anew) {
  Server server([&, request = 0](int socket) mutable {
    const bool is_read = ++request == 2;
    const int begin = is_read ? 70'000 : 0, count = is_read ? 4 : 64 << 10;
    send_all(socket, formatted("HTTP/1.1 206 Partial Content\r\nETag: \"{}\"\r\nContent-Range: bytes {}-{}/100000\r\n"
                               "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
                               request == 1 ? "a" : "b", begin, begin + count - 1, count,
                               std::string(static_cast<std::size_t>(count), 'x')));
  });
  const auto store = make_http_store(server.uri(), HttpSettings());
  const auto object = store->open("key");
  std::array<std::byte, 4> bytes;
  EXPECT_EQ(error_of([&] { object->read_exact(70'000, bytes); }).where().reason, "changed");
  EXPECT_EQ(store->open("key")->version(), "\"b\"");
  EXPECT_EQ(server.requests(), 3);
}

TEST(HttpStore, a_started_read_that_waited_long_to_be_finished_is_repeated) {
  Server server([request = 0](int socket) mutable {
    if (++request == 2) {
      send_all(socket, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      return;
    }
    const int begin = request == 3 ? 70'000 : 0, count = request == 3 ? 4 : 64 << 10;
    send_all(socket, formatted("HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes {}-{}/100000\r\n"
                               "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
                               begin, begin + count - 1, count, std::string(static_cast<std::size_t>(count), 'x')));
  });
  const auto clock = std::make_shared<ShiftedClock>();
  HttpSettings settings;
  settings.clock = clock;
  const auto store = make_http_store(server.uri(), settings);
  const auto object = store->open("key");
  std::array<std::byte, 4> bytes{};
  std::atomic<bool> has_landed{false};
  const auto read = object->start_read(70'000, bytes, [&] { has_landed = true; });
  EXPECT_TRUE(testing::eventually([&] { return has_landed.load(); }));
  clock->shift = std::chrono::hours(1);  // of which none is the read's
  read->finish();
  EXPECT_EQ(bytes[3], std::byte{'x'});
  EXPECT_EQ(server.requests(), 3);
}

TEST(HttpStore, a_read_that_will_not_be_made_leaves_the_answer_to_the_others) {
  Server server(
      [](int socket) { send_all(socket, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); });
  const auto store = make_http_store(server.uri(), HttpSettings());
  for (int i = 0; i < 2; ++i) store->expect("key", {.bytes = 4, .reads = 1});
  store->unexpect("key");
  EXPECT_FALSE(store->open("key"));
  EXPECT_EQ(server.requests(), 1);
  store->expect("other", {.bytes = 4, .reads = 1});
  ASSERT_TRUE(testing::eventually([&] { return server.requests() == 2; }));  // cancelled before, it may never be sent
  store->unexpect("other");  // it may have changed when it is wanted again
  EXPECT_FALSE(store->open("other"));
  EXPECT_EQ(server.requests(), 3);
}

struct OpenedAtOnce {
  int opened = 0, denied = 0, requests = 0;
};
// By eight threads. The answers: with that status first, then the object.
OpenedAtOnce open_at_once(std::string_view first_status) {
  constexpr int kThreads = 8;
  std::atomic<int> begun{0}, opened{0}, denied{0};
  Server server([&](int socket) {
    EXPECT_TRUE(testing::eventually([&] { return begun == kThreads; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // in which all of them would ask
    const std::string_view status = server.requests() == 1 ? first_status : "206 Partial Content";
    send_all(socket, formatted("HTTP/1.1 {}\r\nETag: \"a\"\r\nContent-Range: bytes 0-3/4\r\nContent-Length: 4\r\n"
                               "Connection: close\r\n\r\nabcd",
                               status));
  });
  const auto store = make_http_store(server.uri(), HttpSettings());
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        ++begun;
        const auto failure = damacy::failure_of([&] { opened += store->open("key") != nullptr; });
        denied += failure && failure->where().reason == "denied";
      });
  }
  return {opened, denied, server.requests()};
}

TEST(HttpStore, threads_that_open_an_object_at_once_ask_once) {
  const OpenedAtOnce done = open_at_once("206 Partial Content");
  EXPECT_EQ(done.opened, 8);
  EXPECT_EQ(done.requests, 1);
}

TEST(HttpStore, who_waited_for_an_open_that_failed_asks) {
  const OpenedAtOnce done = open_at_once("403 Forbidden");
  EXPECT_EQ(done.opened, 7);
  EXPECT_EQ(done.denied, 1);
  EXPECT_GE(done.requests, 2);
}

TEST(HttpStore, libcurl_before_7_76_is_refused) {
  for (const char* const version : {"libcurl/7.76.0", "libcurl/7.88.1 OpenSSL/3.0", "libcurl/8.0.1", "libcurl/10.1"})
    EXPECT_TRUE(is_recent_curl(version)) << version;
  for (const char* const version : {"libcurl/7.75.9", "libcurl/6.99", "libcurl/8", "libcurl/", "8.0.1", ""})
    EXPECT_FALSE(is_recent_curl(version)) << version;
}

TEST(HttpStore, keys_are_percent_encoded_and_checked) {
  Server server([](int socket) { send_all(socket, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"); });
  const auto store = make_http_store(server.uri());
  EXPECT_FALSE(store->open("c/0 %+(\xc3\xa4)"));
  for (const char* const key : {"", "/a", "a/../b", "a//b"})
    EXPECT_EQ(error_of([&] { store->open(key); }).status(), Status::inval) << key;
  EXPECT_EQ(server.requests(), 1);
}

}  // namespace
}  // namespace damacy::http
