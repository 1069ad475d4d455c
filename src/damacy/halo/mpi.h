// The transport of MPI: a header of its own, so that the library itself does not link MPI. Programs that include it
// compile with the headers of their MPI and link it. Knows buffers and requests; not what a message has.
//
//   MPI_Init(…);
//   damacy::halo::MpiTransport transport(MPI_COMM_WORLD);
//   damacy::halo::Exchanger exchanger(plan, transport);      // plan of this process' rank in the communicator
//
// Objects must be destroyed, or closed, before MPI_Finalize(). Messages are at most 2 GiB.
#pragma once

#include <mpi.h>

#include <climits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/halo/transport.h"

namespace damacy::halo {

class MpiTransport final : public Transport {
 public:
  // Uses a duplicate of the communicator, so that messages cannot meet those of the caller. Collective.
  explicit MpiTransport(MPI_Comm comm) : comm_(std::make_shared<Comm>(comm)) {}

  std::int64_t rank() const {
    int rank = 0;
    check(MPI_Comm_rank(comm_->handle, &rank), "MPI_Comm_rank");
    return rank;
  }

  std::unique_ptr<Channels> open(std::int64_t plan_rank, Rounds rounds) override {
    if (plan_rank != rank())
      throw Error(Status::inval, "expected a plan of rank " + std::to_string(rank()) + " (got one of rank " +
                                     std::to_string(plan_rank) + ")");
    return std::make_unique<MpiChannels>(comm_, std::move(rounds));
  }

 private:
  struct Comm {
    explicit Comm(MPI_Comm comm) { check(MPI_Comm_dup(comm, &handle), "MPI_Comm_dup"); }
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    ~Comm() {
      if (!is_finalized()) MPI_Comm_free(&handle);
    }
    MPI_Comm handle = MPI_COMM_NULL;
  };

  static void check(int error, const char* call) {
    if (error != MPI_SUCCESS)
      throw Error(Status::io, std::string(call) + " failed: MPI error " + std::to_string(error), "mpi");
  }

  static bool is_finalized() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    return finalized != 0;
  }

  // Persistent requests of every slot and phase. MPI matches messages of one phase in the order in which they are
  // started. That order is the same on all ranks, although ranks may use different slots.
  class MpiChannels final : public Channels {
   public:
    MpiChannels(std::shared_ptr<Comm> comm, Rounds rounds) : comm_(std::move(comm)) {
      try {
        for (const auto& phases : rounds) {
          requests_.emplace_back();
          for (std::size_t phase = 0; phase < phases.size(); ++phase)
            requests_.back().push_back(requests_of(phases[phase], static_cast<int>(phase)));
        }
      } catch (...) {
        close();
        throw;
      }
    }
    MpiChannels(const MpiChannels&) = delete;
    MpiChannels& operator=(const MpiChannels&) = delete;
    ~MpiChannels() override { close(); }

    std::map<std::int64_t, Digests> exchange_digests(const std::map<std::int64_t, Digests>& mine) override {
      constexpr int kTag = 32767;  // every MPI allows it
      std::vector<MPI_Request> sends;
      for (const auto& [peer, digests] : mine) {
        sends.push_back(MPI_REQUEST_NULL);
        check(MPI_Isend(&digests, sizeof digests, MPI_BYTE, static_cast<int>(peer), kTag, comm_->handle, &sends.back()),
              "MPI_Isend");
      }
      std::map<std::int64_t, Digests> theirs;
      for (const auto& [peer, digests] : mine)
        check(MPI_Recv(&theirs[peer], sizeof digests, MPI_BYTE, static_cast<int>(peer), kTag, comm_->handle,
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
      wait_all(sends);
      return theirs;
    }

    // Does nothing for a retry: the receives of the failed exchange stay posted, because cancelling one that has
    // matched a message would lose the message.
    void post_receives(int slot, int phase) override {
      if (!posted_.insert({slot, phase}).second) return;
      start_all(at(slot, phase).receives);
    }

    void send(int slot, int phase) override {
      posted_.erase({slot, phase});
      start_all(at(slot, phase).sends);
    }

    void wait_received(int slot, int phase) override { wait_all(at(slot, phase).receives); }
    void wait_sent(int slot, int phase) override { wait_all(at(slot, phase).sends); }

    bool close() noexcept override {
      bool unused = true;
      auto requests = std::exchange(requests_, {});
      if (is_finalized()) return requests.empty();
      for (auto& phases : requests)
        for (Requests& own : phases) {
          for (MPI_Request& request : own.receives) {
            if (!ended(request)) {
              MPI_Cancel(&request);
              MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
            MPI_Request_free(&request);
          }
          for (MPI_Request& request : own.sends) {
            if (!ended(request)) unused = false;
            MPI_Request_free(&request);
          }
        }
      return unused;
    }

   private:
    struct Requests {
      std::vector<MPI_Request> sends, receives;
    };

    Requests requests_of(const Round& round, int phase) const {
      Requests out;
      for (const auto& [peer, buffer] : round.send) {
        out.sends.push_back(MPI_REQUEST_NULL);
        check(MPI_Send_init(buffer.data(), count_of(buffer), MPI_BYTE, static_cast<int>(peer), phase, comm_->handle,
                            &out.sends.back()),
              "MPI_Send_init");
      }
      for (const auto& [peer, buffer] : round.receive) {
        out.receives.push_back(MPI_REQUEST_NULL);
        check(MPI_Recv_init(buffer.data(), count_of(buffer), MPI_BYTE, static_cast<int>(peer), phase, comm_->handle,
                            &out.receives.back()),
              "MPI_Recv_init");
      }
      return out;
    }

    static int count_of(std::span<std::byte> buffer) {
      if (buffer.size() > INT_MAX)
        throw Error(Status::inval, "a message of " + std::to_string(buffer.size()) + " bytes: MPI takes at most 2 GiB");
      return static_cast<int>(buffer.size());
    }

    Requests& at(int slot, int phase) {
      return requests_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
    }

    static bool ended(MPI_Request& request) {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    }

    static void start_all(std::vector<MPI_Request>& requests) {
      if (!requests.empty()) check(MPI_Startall(static_cast<int>(requests.size()), requests.data()), "MPI_Startall");
    }

    static void wait_all(std::vector<MPI_Request>& requests) {
      if (requests.empty()) return;
      check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    }

    const std::shared_ptr<Comm> comm_;
    std::vector<std::vector<Requests>> requests_;  // by slot, then by phase
    std::set<std::pair<int, int>> posted_;         // receives whose exchange has not sent
  };

  const std::shared_ptr<Comm> comm_;
};

}  // namespace damacy::halo
