// As much of MPI as damacy/halo/mpi.h uses, for ranks that are threads of one process: messages arrive at once, and
// meet receives in the order in which these were started. A wait that no message ends fails after ten seconds. Knows
// nothing of halos.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace fake_mpi {

struct Request;
// Messages from one rank to another with one tag of a communicator, and the receives that wait for them.
struct Channel {
  std::deque<std::vector<std::byte>> messages;
  std::deque<Request*> receives;
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<int, int, int, int>, Channel> channels;  // communicator, sender, receiver, tag
  std::map<std::pair<int, int>, int> duplicates;               // of a communicator, by rank
  int requests = 0;                                            // that were not freed
  int freed = 0;                                               // communicators
  bool sends_stay = false;                                     // sends are not done before they are waited for
  bool finalized = false;
};

inline World world;
inline thread_local int rank = 0;

struct Request {
  Channel* channel;
  std::byte* data;
  std::size_t bytes;
  bool is_send;
  bool active = false;
  bool done = false;
};

inline void match(Channel& channel) {
  while (!channel.messages.empty() && !channel.receives.empty()) {
    Request* const receive = channel.receives.front();
    std::memcpy(receive->data, channel.messages.front().data(), channel.messages.front().size());
    receive->done = true;
    channel.receives.pop_front();
    channel.messages.pop_front();
  }
  world.changed.notify_all();
}

}  // namespace fake_mpi

using MPI_Comm = int;
using MPI_Datatype = int;
using MPI_Request = fake_mpi::Request*;
struct MPI_Status {};

inline constexpr int MPI_SUCCESS = 0, MPI_ERR_OTHER = 15, MPI_BYTE = 1, MPI_COMM_NULL = -1, MPI_COMM_WORLD = 0;
inline constexpr MPI_Request MPI_REQUEST_NULL = nullptr;
inline MPI_Status* const MPI_STATUS_IGNORE = nullptr;
inline MPI_Status* const MPI_STATUSES_IGNORE = nullptr;

inline int MPI_Comm_rank(MPI_Comm, int* rank) {
  *rank = fake_mpi::rank;
  return MPI_SUCCESS;
}

inline int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* out) {
  const std::lock_guard lock(fake_mpi::world.mutex);
  *out = comm * 100 + ++fake_mpi::world.duplicates[{comm, fake_mpi::rank}];
  return MPI_SUCCESS;
}

inline int MPI_Comm_free(MPI_Comm* comm) {
  const std::lock_guard lock(fake_mpi::world.mutex);
  ++fake_mpi::world.freed;
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

inline int MPI_Finalized(int* flag) {
  *flag = fake_mpi::world.finalized;
  return MPI_SUCCESS;
}

inline int MPI_Send_init(const void* data, int count, MPI_Datatype, int peer, int tag, MPI_Comm comm,
                         MPI_Request* out) {
  const std::lock_guard lock(fake_mpi::world.mutex);
  ++fake_mpi::world.requests;
  *out = new fake_mpi::Request{&fake_mpi::world.channels[{comm, fake_mpi::rank, peer, tag}],
                               static_cast<std::byte*>(const_cast<void*>(data)), static_cast<std::size_t>(count), true};
  return MPI_SUCCESS;
}

inline int MPI_Recv_init(void* data, int count, MPI_Datatype, int peer, int tag, MPI_Comm comm, MPI_Request* out) {
  const std::lock_guard lock(fake_mpi::world.mutex);
  ++fake_mpi::world.requests;
  *out = new fake_mpi::Request{&fake_mpi::world.channels[{comm, peer, fake_mpi::rank, tag}],
                               static_cast<std::byte*>(data), static_cast<std::size_t>(count), false};
  return MPI_SUCCESS;
}

inline int MPI_Startall(int count, MPI_Request requests[]) {
  const std::lock_guard lock(fake_mpi::world.mutex);
  for (int i = 0; i < count; ++i) {
    fake_mpi::Request& request = *requests[i];
    if (request.active) return MPI_ERR_OTHER;
    request.active = true;
    request.done = request.is_send && !fake_mpi::world.sends_stay;
    if (request.is_send)
      request.channel->messages.emplace_back(request.data, request.data + request.bytes);
    else
      request.channel->receives.push_back(&request);
    fake_mpi::match(*request.channel);
  }
  return MPI_SUCCESS;
}

inline int MPI_Wait(MPI_Request* request, MPI_Status*) {
  std::unique_lock lock(fake_mpi::world.mutex);
  if (!(*request)->active) return MPI_SUCCESS;
  if ((*request)->is_send) (*request)->done = true;
  if (!fake_mpi::world.changed.wait_for(lock, std::chrono::seconds(10), [&] { return (*request)->done; }))
    return MPI_ERR_OTHER;
  (*request)->active = false;
  return MPI_SUCCESS;
}

inline int MPI_Waitall(int count, MPI_Request requests[], MPI_Status*) {
  for (int i = 0; i < count; ++i)
    if (const int error = MPI_Wait(&requests[i], MPI_STATUS_IGNORE); error != MPI_SUCCESS) return error;
  return MPI_SUCCESS;
}

inline int MPI_Test(MPI_Request* request, int* flag, MPI_Status*) {
  const std::lock_guard lock(fake_mpi::world.mutex);
  *flag = !(*request)->active || (*request)->done;
  if (*flag) (*request)->active = false;
  return MPI_SUCCESS;
}

inline int MPI_Cancel(MPI_Request* request) {
  const std::lock_guard lock(fake_mpi::world.mutex);
  std::erase((*request)->channel->receives, *request);
  (*request)->done = true;
  return MPI_SUCCESS;
}

inline int MPI_Request_free(MPI_Request* request) {
  const std::lock_guard lock(fake_mpi::world.mutex);
  --fake_mpi::world.requests;
  delete *request;
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
