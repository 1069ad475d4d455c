// A slot is in flight as soon as its phase 0 is sent.
#include "damacy/halo/exchange_steps.h"

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

std::string ExchangeWork::failure() const {
  return current_error().what();
}

template <class Step>
void ExchangeSteps::refuse_if_it_fails(const ExchangeWork& work, Step step) {
  try {
    step();
  } catch (...) {
    flights_.refuse_after(work.failure());
    throw;
  }
}

void ExchangeSteps::begin(int slot, int phase, ExchangeWork& work) {
  if (talks_) {
    if (phase == 0) flights_.post(slot);
    work.post_receives(slot, phase);
  }
  work.pack(slot, phase);
  refuse_if_it_fails(work, [&] {
    if (phase == 0) flights_.send(slot);
    if (talks_) work.send(slot, phase);
  });
}

void ExchangeSteps::run_phases(int slot, ExchangeWork& work) {
  for (int phase = 0; phase < phases_; ++phase) {
    if (phase > 0) begin(slot, phase, work);
    if (talks_) work.receive(slot, phase);
    work.unpack(slot, phase);
    if (talks_) work.end_messages(slot, phase);
  }
}

ExchangeSteps::Started ExchangeSteps::start(int slot, ExchangeWork& work) {
  begin(slot, 0, work);
  return {this, slot};
}

void ExchangeSteps::finish(Started* started, ExchangeWork& work) {
  if (started == nullptr || started->owner != this)
    throw Error(Status::inval, "finish: another exchanger's token", kMisuse);
  if (started->finished) throw Error(Status::inval, "finish: this token was finished already", kMisuse);
  flights_.check();
  if (talks_ && phases_ > 1 && !flights_.is_oldest(started->slot))
    throw Error(
        Status::inval,
        formatted("finish: an exchange that was started before is not finished. Exchanges of {} phases, as those "
                  "with sequential corners, must be finished in the order of their starts",
                  phases_),
        kMisuse);
  started->finished = true;
  refuse_if_it_fails(work, [&] { run_phases(started->slot, work); });
  flights_.finish(started->slot);
}

}  // namespace damacy::halo
