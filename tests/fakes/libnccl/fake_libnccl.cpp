// Plays NCCL between threads of one process: memory is the host's, and streams are ignored. A group first waits for the
// counterparts of its messages, if they are the first between two ranks: that wait holds ncclGroupEnd, and no abort of
// the same thread can end it. Then it sends copies, and waits for what it receives, as a kernel of NCCL does. Knows
// communicators, ranks and bytes.
#include "fakes/libnccl/fake_libnccl.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

using Id = std::array<char, 128>;
using Message = std::vector<char>;
constexpr int kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kRemoteError = 6;
constexpr std::chrono::seconds kDeadline(30);

using Way = std::tuple<std::uint64_t, int, int>;  // id, sender, receiver

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, int> joined;  // ranks, by id
  std::set<Way> sending, receiving;     // by the group of either end; in both: connected
  std::map<Way, std::deque<Message>> messages;
  std::int64_t waiting = 0;       // calls, for other ranks
  std::uint64_t ended_waits = 0;  // how often a test ended them
  std::uint64_t ids = 0;
  std::int64_t alive = 0;
  std::map<std::string, std::uint64_t> calls;
  std::string failing;
  std::uint64_t until_failure = 0;
  int code = 0, async_error = 0;
  std::vector<void*> aborted;  // communicators, which groups may still use
};

World& world() {
  static World& one = *new World;
  return one;
}

struct Comm {
  std::uint64_t id;
  int rank, ranks;
  bool aborted = false;
};

struct Operation {
  Comm* comm;
  int peer;
  void* to;
  std::size_t bytes;
  Message message;
};

thread_local int depth = 0;
thread_local int group_error = kSuccess;  // of a call in the open group: then none of it is done
thread_local std::vector<Operation> operations;

// Counts a call; what it must return if a test lets it fail.
int counted(const char* name) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  ++all.calls[name];
  if (all.failing == name && all.until_failure > 0 && --all.until_failure == 0) return all.code;
  return kSuccess;
}

// Waits for other ranks; false if a test ended that, or the deadline.
template <class Until>
bool wait_for_ranks(std::unique_lock<std::mutex>& lock, Until until) {
  World& all = world();
  const std::uint64_t before = all.ended_waits;
  ++all.waiting;
  all.changed.notify_all();
  static_cast<void>(all.changed.wait_for(lock, kDeadline, [&] { return until() || all.ended_waits != before; }));
  --all.waiting;
  all.changed.notify_all();
  return until();
}

bool connect(std::unique_lock<std::mutex>& lock) {
  World& all = world();
  const auto way = [](const Operation& one) {
    return one.to == nullptr ? Way{one.comm->id, one.comm->rank, one.peer}
                             : Way{one.comm->id, one.peer, one.comm->rank};
  };
  for (const Operation& one : operations) (one.to == nullptr ? all.sending : all.receiving).insert(way(one));
  return wait_for_ranks(lock, [&] {
    return std::ranges::all_of(operations, [&](const Operation& one) {
      return all.sending.contains(way(one)) && all.receiving.contains(way(one));
    });
  });
}

int run_group() {
  World& all = world();
  std::unique_lock lock(all.mutex);
  if (!connect(lock)) return kRemoteError;
  for (Operation& one : operations)
    if (one.to == nullptr) all.messages[{one.comm->id, one.comm->rank, one.peer}].push_back(std::move(one.message));
  all.changed.notify_all();
  for (const Operation& one : operations) {
    if (one.to == nullptr) continue;
    auto& waiting = all.messages[{one.comm->id, one.peer, one.comm->rank}];
    const bool arrived = all.changed.wait_for(lock, kDeadline, [&] { return !waiting.empty() || one.comm->aborted; });
    if (!arrived || waiting.empty()) return kRemoteError;
    if (waiting.front().size() != one.bytes) return kInvalidArgument;
    std::memcpy(one.to, waiting.front().data(), one.bytes);
    waiting.pop_front();
  }
  return kSuccess;
}

int end_group() {
  if (--depth > 0) return kSuccess;
  const int result = group_error != kSuccess ? group_error : run_group();
  group_error = kSuccess;
  operations.clear();
  return result;
}

int added(Operation operation, int type) {
  if (type != 1 || operation.peer < 0 || operation.peer >= operation.comm->ranks) return kInvalidArgument;
  ++depth;
  operations.push_back(std::move(operation));
  return end_group();
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

int ncclGetUniqueId(Id* id) {
  if (const int failed = counted("ncclGetUniqueId")) return failed;
  World& all = world();
  const std::lock_guard lock(all.mutex);
  id->fill(0);
  const std::uint64_t number = ++all.ids;
  std::memcpy(id->data(), &number, sizeof number);
  return kSuccess;
}

int ncclCommInitRank(void** out, int ranks, Id id, int rank) {
  if (const int failed = counted("ncclCommInitRank")) return failed;
  World& all = world();
  std::unique_lock lock(all.mutex);
  std::uint64_t number = 0;
  std::memcpy(&number, id.data(), sizeof number);
  ++all.joined[number];
  if (!wait_for_ranks(lock, [&] { return all.joined[number] >= ranks; })) return kSystemError;
  ++all.alive;
  *out = new Comm{number, rank, ranks};
  return kSuccess;
}

int ncclCommDestroy(void* comm) {
  if (const int failed = counted("ncclCommDestroy")) return failed;
  const std::unique_ptr<Comm> owned(static_cast<Comm*>(comm));
  const std::lock_guard lock(world().mutex);
  --world().alive;
  return kSuccess;
}

int ncclCommAbort(void* comm) {
  counted("ncclCommAbort");
  const std::lock_guard lock(world().mutex);
  static_cast<Comm*>(comm)->aborted = true;
  world().aborted.push_back(comm);
  --world().alive;
  world().changed.notify_all();
  return kSuccess;
}

int ncclCommGetAsyncError(void*, int* result) {
  const std::lock_guard lock(world().mutex);
  *result = world().async_error;
  return kSuccess;
}

int ncclGroupStart() {
  if (const int failed = counted("ncclGroupStart")) return failed;
  ++depth;
  return kSuccess;
}

int ncclGroupEnd() {
  const int failed = counted("ncclGroupEnd");
  const int result = end_group();
  return failed != 0 ? failed : result;
}

int ncclSend(const void* from, std::size_t bytes, int type, int peer, void* comm, void*) {
  if (const int failed = counted("ncclSend")) return group_error = failed;
  const char* const begin = static_cast<const char*>(from);
  return added({static_cast<Comm*>(comm), peer, nullptr, bytes, Message(begin, begin + bytes)}, type);
}

int ncclRecv(void* to, std::size_t bytes, int type, int peer, void* comm, void*) {
  if (const int failed = counted("ncclRecv")) return group_error = failed;
  return added({static_cast<Comm*>(comm), peer, to, bytes, {}}, type);
}

const char* ncclGetErrorString(int code) {
  return code == kSystemError   ? "unhandled system error"
         : code == kRemoteError ? "remote process exited"
                                : "invalid argument";
}

const char* ncclGetLastError(void*) {
  return "the fake's last error";
}

void fake_nccl_fail(const char* name, std::uint64_t nth, int code) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.failing = name;
  all.until_failure = nth;
  all.code = code;
}

void fake_nccl_async_error(int code) {
  const std::lock_guard lock(world().mutex);
  world().async_error = code;
}

std::uint64_t fake_nccl_calls(const char* name) {
  const std::lock_guard lock(world().mutex);
  return world().calls[name];
}

std::int64_t fake_nccl_waiting() {
  const std::lock_guard lock(world().mutex);
  return world().waiting;
}

void fake_nccl_end_waits() {
  World& all = world();
  std::unique_lock lock(all.mutex);
  ++all.ended_waits;
  all.changed.notify_all();
  static_cast<void>(all.changed.wait_for(lock, kDeadline, [&] { return all.waiting == 0; }));
}

std::int64_t fake_nccl_communicators() {
  const std::lock_guard lock(world().mutex);
  return world().alive;
}
}
#pragma GCC visibility pop
