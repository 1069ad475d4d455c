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

#include <atomic>
#include <chrono>
#include <climits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/halo/message_channels.h"

namespace damacy::halo {

class MpiTransport final : public Transport {
 public:
  // Uses a duplicate of the communicator, so that messages cannot meet those of the caller. Collective. An exchanger
  // throws Error(io) if a peer does not construct its own within `timeout`, or constructs one without links to this
  // rank.
  explicit MpiTransport(MPI_Comm comm, std::chrono::milliseconds timeout = std::chrono::minutes(5))
      : comm_(std::make_shared<Comm>(comm)), timeout_(timeout) {}

  std::int64_t rank() const {
    int rank = 0;
    check(MPI_Comm_rank(comm_->handle, &rank), "MPI_Comm_rank");
    return rank;
  }

  std::unique_ptr<Channels> open(std::int64_t plan_rank, Rounds rounds) override {
    if (plan_rank != rank())
      throw Error(Status::inval, "expected a plan of rank " + std::to_string(rank()) + " (got one of rank " +
                                     std::to_string(plan_rank) + ")");
    const int slots = static_cast<int>(rounds.size());
    const int phases = rounds.empty() ? 0 : static_cast<int>(rounds[0].size());
    return std::make_unique<MessageChannels>(std::make_unique<Library>(comm_, std::move(rounds)), plan_rank, slots,
                                             phases, MessageOptions{tags_, timeout_});
  }

 private:
  struct Comm {
    explicit Comm(MPI_Comm comm) { check(MPI_Comm_dup(comm, &handle), "MPI_Comm_dup"); }
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    ~Comm() {
      if (!keep && !is_finalized()) MPI_Comm_free(&handle);
    }
    MPI_Comm handle = MPI_COMM_NULL;
    // Set if messages may be left on it. They would reach a later communicator with the same context id.
    std::atomic<bool> keep = false;
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

  // Persistent requests.
  class MpiRequests final : public Requests {
   public:
    MpiRequests(std::shared_ptr<Comm> comm, const Round& round, const Tags& tags) : comm_(std::move(comm)) {
      try {
        for (const auto& [peer, buffer] : round.send) add_send(static_cast<int>(peer), buffer, tags.send.at(peer));
        for (const auto& [peer, buffer] : round.receive) add_receive(static_cast<int>(peer), buffer, tags.receive);
      } catch (...) {
        (void)cancel();
        throw;
      }
    }
    MpiRequests(const MpiRequests&) = delete;
    MpiRequests& operator=(const MpiRequests&) = delete;
    ~MpiRequests() override { (void)cancel(); }

    void post() override { start_all(receives_); }
    void send() override { start_all(sends_); }
    void wait_received() override { wait_all(receives_); }
    void wait_sent() override { wait_all(sends_); }

    std::vector<std::int64_t> missing() override {
      std::vector<std::int64_t> peers;
      for (std::size_t i = 0; i < receives_.size(); ++i)
        if (!ended(receives_[i])) peers.push_back(sources_[i]);
      return peers;
    }

    bool cancel() noexcept override {
      bool unused = true;
      const auto receives = std::exchange(receives_, {}), sends = std::exchange(sends_, {});
      if (is_finalized()) return receives.empty() && sends.empty();
      for (MPI_Request request : receives) {
        if (!ended(request)) {
          comm_->keep = true;
          MPI_Cancel(&request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&request);
      }
      for (MPI_Request request : sends) {
        if (!ended(request)) unused = false, comm_->keep = true;
        MPI_Request_free(&request);
      }
      return unused;
    }

   private:
    void add_send(int peer, std::span<std::byte> buffer, int tag) {
      MPI_Request request = MPI_REQUEST_NULL;
      sends_.reserve(sends_.size() + 1);
      check(MPI_Send_init(buffer.data(), count_of(buffer), MPI_BYTE, peer, tag, comm_->handle, &request),
            "MPI_Send_init");
      sends_.push_back(request);
    }

    void add_receive(int peer, std::span<std::byte> buffer, int tag) {
      MPI_Request request = MPI_REQUEST_NULL;
      receives_.reserve(receives_.size() + 1);
      sources_.push_back(peer);
      check(MPI_Recv_init(buffer.data(), count_of(buffer), MPI_BYTE, peer, tag, comm_->handle, &request),
            "MPI_Recv_init");
      receives_.push_back(request);
    }

    static int count_of(std::span<std::byte> buffer) {
      if (buffer.size() > INT_MAX)
        throw Error(Status::inval, "a message of " + std::to_string(buffer.size()) + " bytes: MPI takes at most 2 GiB");
      return static_cast<int>(buffer.size());
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
    std::vector<MPI_Request> sends_, receives_;
    std::vector<std::int64_t> sources_;  // of the receives
  };

  class Library final : public MessageLibrary {
   public:
    Library(std::shared_ptr<Comm> comm, Rounds rounds) : comm_(std::move(comm)), rounds_(std::move(rounds)) {}
    std::unique_ptr<Requests> messages(int slot, int phase, const Tags& tags) override {
      return digests(rounds_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase)), tags);
    }
    std::unique_ptr<Requests> digests(Round round, const Tags& tags) override {
      return std::make_unique<MpiRequests>(comm_, round, tags);
    }
    void leave_messages() noexcept override { comm_->keep = true; }

   private:
    const std::shared_ptr<Comm> comm_;
    const Rounds rounds_;
  };

  const std::shared_ptr<Comm> comm_;
  const std::shared_ptr<MessageTags> tags_ = mpi_tags();
  const std::chrono::milliseconds timeout_;
};

}  // namespace damacy::halo
