// The steps of halo exchanges for Python: channels are an object with the methods of halo::Channels, each with the
// stream as its last argument. Decides nothing.
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/exchange_steps.h"
#include "damacy/halo/transport.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

// `ways`: of each phase, the functions of a stream that pack and unpack; None if there is nothing to copy.
class PythonWork final : public halo::ExchangeWork {
 public:
  PythonWork(nb::handle channels, nb::handle ways, nb::handle stream)
      : channels_(channels), ways_(ways), stream_(stream) {}

  void post_receives(int slot, int phase) override { call(message_names().post_receives, slot, phase); }
  void pack(int, int phase) override { run(phase, 0); }
  void send(int slot, int phase) override { call(message_names().send, slot, phase); }
  void receive(int slot, int phase) override { call(message_names().wait_received, slot, phase); }
  void unpack(int, int phase) override { run(phase, 1); }
  void end_messages(int slot, int phase) override { call(message_names().wait_sent, slot, phase); }

  std::string failure() const override {
    try {
      throw;
    } catch (const nb::python_error& error) {
      return nb::str(error.value()).c_str();
    } catch (...) {
      return ExchangeWork::failure();
    }
  }

 private:
  void call(PyObject* name, int slot, int phase) { channels_.attr(nb::handle(name))(slot, phase, stream_); }

  void run(int phase, int which) {
    const nb::object way(ways_[phase][which]);
    if (!way.is_none()) way(stream_);
  }

  nb::handle channels_, ways_, stream_;
};

// An exchange that was started.
struct ExchangeToken {
  std::shared_ptr<halo::ExchangeSteps> owner;
  halo::ExchangeSteps::Started started;
  nb::object ways, stream;
};

class PythonSteps {
 public:
  PythonSteps(std::shared_ptr<const halo::ExchangePlan> plan, int depth)
      : plan_(std::move(plan)),
        steps_(std::make_shared<halo::ExchangeSteps>(depth, static_cast<int>(plan_->phases().size()),
                                                     !plan_->peers().empty())) {}

  // Compares the digests of the peers that the channels know.
  void open(nb::object channels) {
    channels_ = std::move(channels);
    nb::dict mine;
    for (const auto peer : plan_->peers()) {
      const auto [sent, expected] = plan_->digests(peer);
      mine[nb::int_(peer)] = nb::make_tuple(digest_bytes(sent), digest_bytes(expected));
    }
    const auto theirs = nb::cast<nb::dict>(channels_.attr("exchange_digests")(mine));
    for (const auto& [peer, digests] : theirs)
      halo::check_digests(plan_->rank(), nb::cast<std::int64_t>(peer), digests_of(mine[peer]), digests_of(digests));
  }

  void check() const { steps_->check(); }

  // `ways_of`: a function of the slot.
  ExchangeToken start(nb::callable ways_of, nb::object stream) {
    const int slot = steps_->next();
    nb::object ways = ways_of(slot);
    PythonWork work(channels_, ways, stream);
    const auto started = steps_->start(slot, work);
    return {steps_, started, std::move(ways), std::move(stream)};
  }

  // `stream`: None for the one of start().
  void finish(ExchangeToken& token, nb::object stream) {
    PythonWork work(channels_, token.ways, stream.is_none() ? token.stream : stream);
    steps_->finish(&token.started, work);
  }

  // The channels are closed by the caller.
  void close() {
    steps_->close();
    channels_ = nb::none();
  }

 private:
  const std::shared_ptr<const halo::ExchangePlan> plan_;
  const std::shared_ptr<halo::ExchangeSteps> steps_;
  nb::object channels_ = nb::none();
};

}  // namespace

void bind_halo_steps(nb::module_& m) {
  nb::class_<ExchangeToken>(m, "ExchangeToken");
  nb::class_<PythonSteps>(m, "ExchangeSteps")
      .def(nb::init<std::shared_ptr<const halo::ExchangePlan>, int>(), nb::arg("plan"), nb::arg("depth"))
      .def("open", &PythonSteps::open, nb::arg("channels"))
      .def("check", &PythonSteps::check)
      .def("start", &PythonSteps::start, nb::arg("ways_of"), nb::arg("stream").none())
      .def("finish", &PythonSteps::finish, nb::arg("token"), nb::arg("stream").none())
      .def("close", &PythonSteps::close);
}

}  // namespace damacy::python
