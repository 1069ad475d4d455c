// Times and limits, against a server of a few lines. What servers may answer besides: tests/end_to_end/test_http.py.
#include "damacy/store/http/http_store.h"

#include <atomic>
#include <functional>
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
#include "damacy/store/http/curl.h"
#include "support/error_of.h"

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
