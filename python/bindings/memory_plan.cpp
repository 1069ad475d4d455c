// What a pipeline would take, and what the machine has: plain dicts of the library's own records.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "config_fields.h"
#include "damacy/batch/machine_settings.h"
#include "damacy/batch/memory_plan.h"
#include "damacy/core/checked.h"
#include "damacy/core/formatted.h"
#include "damacy/device/this_machine.h"

namespace damacy::python {
namespace {

template <class Value>
nb::object or_none(const std::optional<Value>& value) {
  return value ? nb::object(nb::int_(*value)) : nb::none();
}

nb::object addresses_of(const Machine& machine) {
  if (!machine.addresses) return nb::none();
  return nb::make_tuple(machine.addresses->limit, machine.addresses->in_use);
}

std::optional<AddressSpace> addresses_in(const nb::dict& facts) {
  const nb::object addresses(facts["addresses"]);
  if (addresses.is_none()) return std::nullopt;
  return AddressSpace{nb::cast<std::uint64_t>(addresses[0]), nb::cast<std::uint64_t>(addresses[1])};
}

nb::dict machine_dict(const Machine& machine) {
  nb::dict out;
  out["cores"] = machine.cores;
  out["ranks"] = machine.ranks;
  out["rank_cores"] = machine.rank_cores;
  out["why_cores"] = machine.why_cores;
  out["physical_bytes"] = machine.physical_bytes;
  out["host_bytes"] = or_none(machine.host_bytes);
  out["why_memory"] = machine.why_memory;
  out["addresses"] = addresses_of(machine);
  out["open_files"] = machine.open_files;
  out["gpu"] = machine.gpu;
  out["gpu_bytes"] = or_none(machine.gpu_bytes);
  return out;
}

// What plans and settings need of it.
Machine machine_of(const nb::dict& facts) {
  using Bytes = std::optional<std::uint64_t>;
  Machine machine;
  machine.cores = nb::cast<std::size_t>(facts["cores"]);
  machine.ranks = nb::cast<std::size_t>(facts["ranks"]);
  machine.rank_cores = nb::cast<std::size_t>(facts["rank_cores"]);
  machine.why_cores = nb::cast<std::string>(facts["why_cores"]);
  machine.physical_bytes = nb::cast<std::uint64_t>(facts["physical_bytes"]);
  machine.host_bytes = nb::cast<Bytes>(facts["host_bytes"]);
  machine.why_memory = nb::cast<std::string>(facts["why_memory"]);
  machine.addresses = addresses_in(facts);
  machine.open_files = nb::cast<std::uint64_t>(facts["open_files"]);
  machine.gpu = nb::cast<bool>(facts["gpu"]);
  machine.gpu_bytes = nb::cast<Bytes>(facts["gpu_bytes"]);
  return machine;
}

nb::dict settings_dict(const nb::dict& machine, std::int64_t chunk_bytes, std::int64_t max_gpu_memory_bytes) {
  nb::dict out;
  for (const Choice& choice : choose_settings(machine_of(machine), {chunk_bytes, max_gpu_memory_bytes}))
    out[nb::str(choice.field.data(), choice.field.size())] = nb::make_tuple(choice.value, choice.why);
  return out;
}

const char* name_of(MemoryKind kind) {
  return kind == MemoryKind::gpu ? "gpu" : kind == MemoryKind::pinned ? "pinned" : "host";
}

const char* name_of(Taken taken) {
  switch (taken) {
    case Taken::at_start:
      return "at start";
    case Taken::reserved:
      return "reserved";
    case Taken::first_sample:
      return "first sample";
    case Taken::as_used:
      break;
  }
  return "as used";
}

nb::object text_or_none(std::string_view text) {
  return text.empty() ? nb::none() : nb::object(nb::str(text.data(), text.size()));
}

// Bytes of one slot. `arrays`: (elements of a row, number of the element type) of each.
std::int64_t slot_bytes_of(const Config& config, const nb::list& arrays) {
  std::int64_t all = 0;
  for (const nb::handle array : arrays) {
    const auto dtype = static_cast<Dtype>(nb::cast<int>(array[1]));
    const auto sum = checked_add(all, array_slot_bytes(config.batch_size, nb::cast<std::int64_t>(array[0]), dtype));
    if (!sum)
      throw Error(Status::oom, formatted("a batch of {} samples is beyond 2**63 bytes", config.batch_size), "memory");
    all = *sum;
  }
  return all;
}

nb::dict plan_dict(const nb::dict& fields, const nb::dict& facts, const std::optional<nb::list>& arrays, bool keeps) {
  const Config config = config_of(fields);
  const Machine machine = machine_of(facts);
  check_config(config);
  const MemoryPlan plan = plan_memory(config, machine);
  std::optional<SlotPlan> slots;
  if (arrays) slots = plan_slots(config, machine, slot_bytes_of(config, *arrays), keeps);
  nb::list parts;
  for (const MemoryPart& part : parts_of(config, plan, slots, keeps)) {
    nb::dict one;
    one["name"] = text_or_none(part.name);
    one["kind"] = name_of(part.kind);
    one["taken"] = name_of(part.taken);
    one["bytes"] = or_none(part.bytes);
    one["setting"] = text_or_none(part.setting);
    one["use"] = text_or_none(part.use);
    parts.append(one);
  }
  nb::dict out;
  out["parts"] = parts;
  out["threads"] = plan.threads.all();
  out["chunk_bytes"] = plan.chunk_bytes;
  return out;
}

}  // namespace

void bind_memory_plan(nb::module_& m) {
  m.def(
      "this_machine", [](const std::string& device) { return machine_dict(this_machine(device_of(device))); },
      nb::arg("device"), "What the process may use, for batches on `device`; makes no CUDA context.");
  m.def("machine_settings", &settings_dict, nb::arg("machine"), nb::arg("chunk_bytes"), nb::arg("max_gpu_memory_bytes"),
        "By field of Config: a value and the reason.");
  m.def("plan_memory", &plan_dict, nb::arg("fields"), nb::arg("machine"), nb::arg("arrays").none(),
        nb::arg("keeps_batches"), "Every part of memory that a pipeline takes or may take.");
}

}  // namespace damacy::python
