// Bare libcurl: ranges of one object into memory, many at a time. Prints one line of JSON. Knows nothing of damacy.
//
//   raw_ranges URL OBJECT_BYTES REQUEST_BYTES COUNT IN_FLIGHT SEED
//
// One thread, curl_multi_socket_action and epoll, connections that are kept. Ranges begin at multiples of
// REQUEST_BYTES, chosen at random, or one after the other with SEED 0.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

namespace {

struct Slot {
  CURL* handle = nullptr;
  std::vector<char> memory;
  std::size_t landed = 0;
};

struct Loop {
  CURLM* multi = curl_multi_init();
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  long timeout_ms = -1;
  int running = 0;
};

std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* to) {
  Slot& slot = *static_cast<Slot*>(to);
  const std::size_t length = std::min(size * count, slot.memory.size() - slot.landed);
  std::memcpy(slot.memory.data() + slot.landed, bytes, length);
  slot.landed += length;
  return size * count;
}

int on_socket(CURL*, curl_socket_t socket, int what, void* to, void* known) {
  Loop& loop = *static_cast<Loop*>(to);
  if (what == CURL_POLL_REMOVE) return epoll_ctl(loop.epoll, EPOLL_CTL_DEL, socket, nullptr), 0;
  epoll_event event{};
  event.events = ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0u) | ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0u);
  event.data.fd = socket;
  epoll_ctl(loop.epoll, known != nullptr ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event);
  curl_multi_assign(loop.multi, socket, &loop);
  return 0;
}

int on_timer(CURLM*, long timeout_ms, void* to) {
  static_cast<Loop*>(to)->timeout_ms = timeout_ms;
  return 0;
}

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return std::fprintf(stderr, "URL OBJECT_BYTES REQUEST_BYTES COUNT IN_FLIGHT SEED\n"), 2;
  const std::uint64_t object = std::strtoull(argv[2], nullptr, 10), each = std::strtoull(argv[3], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[4], nullptr, 10), most = std::strtoull(argv[5], nullptr, 10);
  const std::uint64_t seed = std::strtoull(argv[6], nullptr, 10);
  if (each == 0 || object < each || most == 0) return 2;
  std::mt19937_64 random(seed);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  Loop loop;
  curl_multi_setopt(loop.multi, CURLMOPT_SOCKETFUNCTION, &on_socket);
  curl_multi_setopt(loop.multi, CURLMOPT_SOCKETDATA, &loop);
  curl_multi_setopt(loop.multi, CURLMOPT_TIMERFUNCTION, &on_timer);
  curl_multi_setopt(loop.multi, CURLMOPT_TIMERDATA, &loop);
  curl_multi_setopt(loop.multi, CURLMOPT_MAXCONNECTS, static_cast<long>(most));
  std::vector<Slot> slots(std::min(most, count));
  std::uint64_t sent = 0, bytes = 0, ended = 0;
  const auto send = [&](Slot& slot) {
    const std::uint64_t place = seed == 0 ? sent % (object / each) : random() % (object / each);
    const std::string range = std::to_string(place * each) + "-" + std::to_string(place * each + each - 1);
    ++sent;
    slot.landed = 0;
    curl_easy_setopt(slot.handle, CURLOPT_RANGE, range.c_str());
    curl_multi_add_handle(loop.multi, slot.handle);
  };
  const double begin = now();
  for (Slot& slot : slots) {
    slot.handle = curl_easy_init();
    slot.memory.resize(each);
    curl_easy_setopt(slot.handle, CURLOPT_URL, argv[1]);
    curl_easy_setopt(slot.handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(slot.handle, CURLOPT_WRITEFUNCTION, &on_body);
    curl_easy_setopt(slot.handle, CURLOPT_WRITEDATA, &slot);
    curl_easy_setopt(slot.handle, CURLOPT_PRIVATE, &slot);
    curl_easy_setopt(slot.handle, CURLOPT_BUFFERSIZE, 64L << 10);
    curl_easy_setopt(slot.handle, CURLOPT_NOSIGNAL, 1L);
    send(slot);
  }
  std::vector<epoll_event> events(512);
  while (ended < count) {
    const int ready = epoll_wait(loop.epoll, events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(loop.timeout_ms < 0 ? 1000 : loop.timeout_ms));
    if (ready <= 0) {
      loop.timeout_ms = -1;  // libcurl sets it anew, if it needs one
      curl_multi_socket_action(loop.multi, CURL_SOCKET_TIMEOUT, 0, &loop.running);
    }
    for (int i = 0; i < ready; ++i) {
      const std::uint32_t got = events[static_cast<std::size_t>(i)].events;
      const int bits = ((got & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 ? CURL_CSELECT_IN : 0) |
                       ((got & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0);
      curl_multi_socket_action(loop.multi, events[static_cast<std::size_t>(i)].data.fd, bits, &loop.running);
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(loop.multi, &left)) {
      Slot* slot = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &slot);
      long status = 0;
      curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
      if (message->data.result != CURLE_OK || status != 206 || slot->landed != each)
        return std::fprintf(stderr, "%s, status %ld\n", curl_easy_strerror(message->data.result), status), 1;
      curl_multi_remove_handle(loop.multi, slot->handle);
      bytes += slot->landed;
      ++ended;
      if (sent < count) send(*slot);
    }
  }
  std::printf("{\"seconds\": %.6f, \"processor_s\": %.6f, \"bytes\": %llu}\n", now() - begin, processor_seconds(),
              static_cast<unsigned long long>(bytes));
}
