// For the command line: the reads that a box needs, and verifying that every chunk decodes.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/pipeline/read_plan.h"
#include "damacy/single/process_readers.h"
#include "damacy/single/verifier.h"

namespace damacy::python {
namespace {

nb::dict read_dict(const PlannedRead& read) {
  nb::list chunks;
  for (const Dims& chunk : read.chunks) chunks.append(tuple_of(chunk));
  nb::dict out;
  out["key"] = read.key;
  out["offset"] = read.offset;
  out["bytes"] = read.bytes;
  out["wanted_bytes"] = read.wanted_bytes;
  out["at_most"] = read.at_most;
  out["chunks"] = chunks;
  return out;
}

nb::dict plan_reads_dict(const std::string& uri, const std::vector<std::vector<std::int64_t>>& box, bool list_reads) {
  Sample sample{uri, {}};
  for (const auto& axis : box) sample.aabb.push_back({axis.at(0), axis.at(1)});
  const ReadPlan plan =
      call_without_gil(uri, [sample, list_reads] { return plan_reads(sample, list_reads ? Listed::yes : Listed::no); });
  nb::list reads;
  for (const PlannedRead& read : plan.reads) reads.append(read_dict(read));
  nb::dict out;
  out["store"] = plan.store;
  out["shape"] = tuple_of(plan.shape);
  out["chunk_shape"] = tuple_of(plan.chunk_shape);
  out["dtype"] = plan.dtype;
  out["reads"] = reads;
  out["objects"] = plan.objects;
  out["chunks"] = plan.chunks;
  out["missing_chunks"] = plan.missing_chunks;
  out["box_bytes"] = plan.box_bytes;
  out["decoded_bytes"] = plan.decoded_bytes;
  out["stored_bytes"] = plan.stored_bytes;
  out["read_bytes"] = plan.read_bytes;
  out["buffer_bytes"] = plan.buffer_bytes;
  return out;
}

nb::dict verify_dict(const Verifier& verifier, std::int64_t first, std::int64_t count, const nb::object& progress) {
  const auto look = [&progress, signals = signal_checker()](std::int64_t done) {
    if (signals) signals();
    if (progress.is_none()) return;
    const GilAcquire gil;
    progress(done);
  };
  VerifyReport report;
  {
    const GilRelease unlocked;
    report = verifier.verify(first, count, look);
  }
  nb::list bad;
  for (const Error& error : report.bad) bad.append(exception_of(error));
  nb::dict out;
  out["chunks"] = report.chunks;
  out["missing"] = report.missing;
  out["unguarded"] = report.unguarded;
  out["encoded_bytes"] = report.encoded_bytes;
  out["decoded_bytes"] = report.decoded_bytes;
  out["read_ns"] = report.read_ns;
  out["decode_ns"] = report.decode_ns;
  out["bad"] = bad;
  return out;
}

}  // namespace

void bind_plan(nb::module_& m) {
  m.def("plan_reads", &plan_reads_dict, nb::arg("uri"), nb::arg("box"), nb::arg("list_reads") = true);
  nb::class_<Verifier>(m, "Verifier")
      .def(
          "__init__",
          [](Verifier* self, const std::string& uri, std::size_t threads) {
            const StorageWaiting waiting{signal_checker()};
            const GilRelease unlocked;
            ProcessReaders& readers = process_readers();
            new (self)
                Verifier(uri, threads > 0 ? readers.with_threads(threads) : readers.one_thread_a_core(), waiting);
          },
          nb::arg("uri"), nb::arg("threads") = 0)
      .def_prop_ro("places", &Verifier::places)
      .def("verify", &verify_dict, nb::arg("first"), nb::arg("count"), nb::arg("progress") = nb::none());
}

}  // namespace damacy::python
