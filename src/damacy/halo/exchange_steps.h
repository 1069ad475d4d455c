// The order of the steps of one rank's exchanges: post receives, pack, send; then for each phase receive, unpack, and
// begin the next one. Knows slots and phases, and when calls are refused; not arrays or buffers, nor how messages
// travel.
#pragma once

#include <string>

#include "damacy/halo/in_flight.h"

namespace damacy::halo {

// The steps of one exchange.
class ExchangeWork {
 public:
  virtual ~ExchangeWork() = default;
  virtual void post_receives(int slot, int phase) = 0;
  virtual void pack(int slot, int phase) = 0;
  virtual void send(int slot, int phase) = 0;
  virtual void receive(int slot, int phase) = 0;
  virtual void unpack(int slot, int phase) = 0;
  virtual void end_messages(int slot, int phase) = 0;
  // The text of the exception in flight.
  virtual std::string failure() const;
};

class ExchangeSteps {
 public:
  // An exchange that was started; it must be finished once.
  struct Started {
    const ExchangeSteps* owner;
    int slot;
    bool finished = false;
  };

  // `talks`: there are peers. Otherwise there are no messages, and only pack() and unpack() are called.
  // Throws Error(inval) unless `depth`, the most exchanges in flight, is at least 1.
  ExchangeSteps(int depth, int phases, bool talks) : phases_(phases), talks_(talks), flights_(depth) {}
  ExchangeSteps(const ExchangeSteps&) = delete;
  ExchangeSteps& operator=(const ExchangeSteps&) = delete;

  // Throws Error(inval, kMisuse) if every call is refused.
  void check() const { flights_.check(); }
  // The slot for start(). Throws if too many exchanges are in flight.
  int next() const { return flights_.next(); }
  // An exchange that fails before send() can be started again. If one fails later, peers already have messages of it:
  // then every call except close() is refused.
  Started start(int slot, ExchangeWork& work);
  // Throws Error(inval, kMisuse) for an exchange of others, or one that was finished. Null: of others. With several
  // phases, exchanges are finished in the order of their starts: each sends later messages here and waits for the
  // peers', so that ranks with different orders would wait for each other, or take the messages of another exchange.
  void finish(Started* started, ExchangeWork& work);
  void close() { flights_.close(); }

 private:
  void begin(int slot, int phase, ExchangeWork& work);
  void run_phases(int slot, ExchangeWork& work);
  template <class Step>
  void refuse_if_it_fails(const ExchangeWork& work, Step step);

  const int phases_;
  const bool talks_;
  InFlight flights_;
};

}  // namespace damacy::halo
