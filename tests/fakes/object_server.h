// A server of HTTP/1.1 on this machine, with objects in memory: ranges, strong ETags, If-Match. Knows the answers 206,
// 404, 412 and 416; no listings, and no other path than those of its objects.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"

namespace damacy::testing {

class ObjectServer {
 public:
  ObjectServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    uri_ = formatted("http://127.0.0.1:{}{}", ntohs(address.sin_port), std::string_view(kRoot, sizeof kRoot - 2));
    listening_ = std::thread([this] { listen(); });
  }
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;
  // Ends all connections.
  ~ObjectServer() {
    ::shutdown(listener_, SHUT_RDWR);
    listening_.join();
    {
      const Lock lock(mutex_);
      for (const Connection& one : connections_) ::shutdown(one.socket, SHUT_RDWR);
    }
    for (Connection& one : connections_) {
      one.thread.join();
      ::close(one.socket);
    }
    ::close(listener_);
  }

  const std::string& uri() const { return uri_; }
  void put(std::string_view key, std::string_view bytes) {
    const Lock lock(mutex_);
    objects_.insert_or_assign(std::string(key), Stored{std::make_shared<const std::string>(bytes), ++puts_});
  }

 private:
  static constexpr char kRoot[] = "/data/";
  struct Stored {
    std::shared_ptr<const std::string> bytes;
    int version = 0;
  };
  struct Connection {
    int socket;
    std::thread thread;
  };
  // What a request says, in lower case except for the path.
  struct Asked {
    std::string key;
    std::string range, if_match;
  };

  void listen() {
    for (;;) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      const Lock lock(mutex_);
      connections_.push_back({socket, std::thread([this, socket] { talk(socket); })});
    }
  }

  void talk(int socket) {
    std::string received;
    char some[4096];
    for (;;) {
      const std::size_t end = received.find("\r\n\r\n");
      if (end == received.npos) {
        const ssize_t got = ::recv(socket, some, sizeof some, 0);
        if (got <= 0) return;
        received.append(some, static_cast<std::size_t>(got));
        continue;
      }
      const std::string answer = answer_to(parse(std::string_view(received).substr(0, end)));
      received.erase(0, end + 4);
      for (std::size_t sent = 0; sent < answer.size();) {
        const ssize_t now = ::send(socket, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (now <= 0) return;
        sent += static_cast<std::size_t>(now);
      }
    }
  }

  static Asked parse(std::string_view head) {
    Asked asked;
    const std::string_view line = head.substr(0, head.find("\r\n"));
    const std::size_t path = line.find(' ') + 1;
    asked.key = decoded(line.substr(path, line.rfind(' ') - path).substr(sizeof kRoot - 1));
    const auto value_of = [&](std::string_view name) {
      const auto at = std::search(head.begin(), head.end(), name.begin(), name.end(),
                                  [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
      if (at == head.end()) return std::string();
      const std::string_view rest = head.substr(static_cast<std::size_t>(at - head.begin()) + name.size());
      return std::string(rest.substr(0, rest.find("\r\n")));
    };
    asked.range = value_of("\r\nrange: bytes=");
    asked.if_match = value_of("\r\nif-match: ");
    return asked;
  }

  static std::string decoded(std::string_view path) {
    std::string key;
    for (std::size_t i = 0; i < path.size(); ++i) {
      unsigned byte = static_cast<unsigned char>(path[i]);
      if (path[i] == '%') {
        std::from_chars(path.data() + i + 1, path.data() + i + 3, byte, 16);
        i += 2;
      }
      key += static_cast<char>(byte);
    }
    return key;
  }

  std::string answer_to(const Asked& asked) {
    Stored stored;
    {
      const Lock lock(mutex_);
      const auto at = objects_.find(asked.key);
      if (at == objects_.end()) return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
      stored = at->second;
    }
    const std::string tag = formatted("\"{}\"", stored.version);
    if (!asked.if_match.empty() && asked.if_match != tag)
      return formatted("HTTP/1.1 412 Precondition Failed\r\nETag: {}\r\nContent-Length: 0\r\n\r\n", tag);
    const std::uint64_t size = stored.bytes->size();
    std::uint64_t first = 0, last = size;
    const auto read = std::from_chars(asked.range.data(), asked.range.data() + asked.range.size(), first);
    std::from_chars(read.ptr + 1, asked.range.data() + asked.range.size(), last);
    if (first >= size)
      return formatted(
          "HTTP/1.1 416 Range Not Satisfiable\r\nETag: {}\r\nContent-Range: bytes */{}\r\n"
          "Content-Length: 0\r\n\r\n",
          tag, size);
    last = std::min(last, size - 1);
    return formatted(
               "HTTP/1.1 206 Partial Content\r\nETag: {}\r\nContent-Range: bytes {}-{}/{}\r\n"
               "Content-Length: {}\r\n\r\n",
               tag, first, last, size, last - first + 1) +
           stored.bytes->substr(first, last - first + 1);
  }

  const int listener_;
  std::string uri_;
  std::thread listening_;
  Mutex mutex_;
  std::map<std::string, Stored> objects_ DAMACY_GUARDED_BY(mutex_);
  int puts_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::vector<Connection> connections_;  // under the mutex while it is listening
};

}  // namespace damacy::testing
