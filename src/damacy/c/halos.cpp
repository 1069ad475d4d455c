// Halo exchange of the C interface.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "damacy/c.h"
#include "damacy/c/detail/callback_transport.h"
#include "damacy/c/detail/calls.h"
#include "damacy/halo/exchanger.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/topology.h"
#include "damacy/halo/transformer.h"
#include "damacy/halo/transport.h"

namespace halo = damacy::halo;
using damacy::Error;
using damacy::Status;
using damacy::detail::dims_of;
using damacy::detail::entries;
using damacy::detail::enumerator;
using damacy::detail::needed;
using damacy::detail::status_of;

struct damacy_halo_field {
  halo::QuantityHaloSpec spec;
};

struct damacy_halo_specs {
  std::vector<halo::HaloExchangeSpec> specs;
};

struct damacy_halo_transformer {
  halo::HaloDataTransformer transformer;
};

struct damacy_halo_plan {
  std::vector<halo::QuantityHaloSpec> fields;
  halo::ExchangeOptions options;
  std::vector<std::string> dims;
  halo::Grid grid;
  std::vector<halo::Cells> widths;
  halo::ExchangePlanPtr plan;
};

struct damacy_halo_transport {
  std::shared_ptr<halo::Transport> transport;
};

struct damacy_halo_exchanger {
  damacy_halo_exchanger(halo::ExchangePlanPtr plan, std::shared_ptr<halo::Transport> given)
      : transport(std::move(given)), exchanger(std::move(plan), *transport) {}

  const std::shared_ptr<halo::Transport> transport;  // outlives the exchanger's channels
  halo::Exchanger exchanger;
};

struct damacy_halo_token {
  halo::Exchanger::Token token;
};

namespace {

void copy_dims(const damacy::Dims& from, int64_t* to, const char* name) {
  std::ranges::copy(from, entries(to, static_cast<std::int64_t>(from.size()), name).begin());
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  const auto duration = damacy::detail::timeout_of(std::max(seconds, 0.0));
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration.value());
}

template <class Pointer>
halo::Arrays arrays_of(Pointer const* first, int count, const char* name) {
  halo::Arrays arrays;
  if (first == nullptr) return arrays;
  for (const Pointer data : entries(first, count, name)) {
    damacy::detail::check_memory(data, name);
    arrays.emplace_back(data);
  }
  return arrays;
}

std::vector<void*> pointers_of(void* const* first, int count) {
  const auto given = entries(first, count, "arrays");
  return {given.begin(), given.end()};
}

void give_buffer(std::span<std::byte> buffer, void** data, size_t* size) {
  needed(size, "size") = buffer.size();
  needed(data, "data") = buffer.data();
}

}  // namespace

int damacy_halo_field_create(int rank, const char* const* dims, int dtype, const int64_t* shape, const int64_t* strides,
                             const int64_t* origin, const int64_t* extent, damacy_halo_field** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    halo::QuantityHaloSpec spec;
    spec.dtype = enumerator(dtype, damacy::Dtype::timedelta64, "dtype");
    for (const char* const dim : entries(dims, rank, "dims")) spec.dims.emplace_back(&needed(dim, "dims"));
    spec.shape = dims_of(shape, rank, "shape");
    spec.origin = dims_of(origin, rank, "origin");
    spec.extent = dims_of(extent, rank, "extent");
    spec.strides = strides != nullptr
                       ? dims_of(strides, rank, "strides")
                       : halo::c_strides(spec.shape, static_cast<std::int64_t>(damacy::size_of(spec.dtype)));
    halo::check(spec);
    to = std::make_unique<damacy_halo_field>(damacy_halo_field{std::move(spec)}).release();
  });
}

void damacy_halo_field_destroy(damacy_halo_field* field) {
  const std::unique_ptr<damacy_halo_field> owner(field);
}

int damacy_halo_field_box(const damacy_halo_field* field, int side, int64_t width, int interior, int64_t* start,
                          int64_t* stop) {
  return status_of([&] {
    const auto at = enumerator(side, halo::Side::southeast, "side");
    const damacy::Box box = halo::boundary_slice(needed(field, "field").spec, at, width, interior != 0);
    copy_dims(box.start, start, "start");
    copy_dims(box.stop, stop, "stop");
  });
}

int damacy_halo_specs_create(damacy_halo_specs** out) {
  return status_of([&] { needed(out, "out") = std::make_unique<damacy_halo_specs>().release(); });
}

void damacy_halo_specs_destroy(damacy_halo_specs* specs) {
  const std::unique_ptr<damacy_halo_specs> owner(specs);
}

int damacy_halo_specs_add(damacy_halo_specs* specs, const damacy_halo_field* field, const int64_t* pack_start,
                          const int64_t* pack_stop, int rotation, const int64_t* unpack_start,
                          const int64_t* unpack_stop) {
  return status_of([&] {
    const halo::QuantityHaloSpec& quantity = needed(field, "field").spec;
    const int rank = static_cast<int>(quantity.dims.size());
    const halo::HaloExchangeSpec spec{
        quantity,
        {dims_of(pack_start, rank, "pack_start"), dims_of(pack_stop, rank, "pack_stop")},
        rotation,
        {dims_of(unpack_start, rank, "unpack_start"), dims_of(unpack_stop, rank, "unpack_stop")}};
    halo::check(spec);
    needed(specs, "specs").specs.push_back(spec);
  });
}

int damacy_halo_transformer_create(const damacy_halo_specs* x, const damacy_halo_specs* y, int wire, int threads,
                                   damacy_halo_transformer** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    if (threads < 1) throw Error(Status::inval, damacy::formatted("{} threads", threads), "arguments");
    halo::TransformerOptions options;
    options.wire = enumerator(wire, halo::Wire::native, "wire");
    options.threads = static_cast<unsigned>(threads);
    const auto& first = needed(x, "x").specs;
    halo::HaloDataTransformer made =
        y == nullptr ? halo::HaloDataTransformer(first, options) : halo::HaloDataTransformer(first, y->specs, options);
    to = std::make_unique<damacy_halo_transformer>(damacy_halo_transformer{std::move(made)}).release();
  });
}

void damacy_halo_transformer_destroy(damacy_halo_transformer* transformer) {
  const std::unique_ptr<damacy_halo_transformer> owner(transformer);
}

int damacy_halo_pack(damacy_halo_transformer* transformer, int count, const void* const* x, const void* const* y) {
  return status_of(
      [&] { needed(transformer, "transformer").transformer.pack(arrays_of(x, count, "x"), arrays_of(y, count, "y")); });
}

int damacy_halo_unpack(damacy_halo_transformer* transformer, int count, void* const* x, void* const* y) {
  return status_of([&] {
    needed(transformer, "transformer").transformer.unpack(arrays_of(x, count, "x"), arrays_of(y, count, "y"));
  });
}

int damacy_halo_pack_buffer(damacy_halo_transformer* transformer, void** data, size_t* size) {
  return status_of([&] { give_buffer(needed(transformer, "transformer").transformer.pack_buffer(), data, size); });
}

int damacy_halo_unpack_buffer(damacy_halo_transformer* transformer, void** data, size_t* size) {
  return status_of([&] { give_buffer(needed(transformer, "transformer").transformer.unpack_buffer(), data, size); });
}

int damacy_halo_plan_create(damacy_halo_plan** out) {
  return status_of([&] { needed(out, "out") = std::make_unique<damacy_halo_plan>().release(); });
}

void damacy_halo_plan_destroy(damacy_halo_plan* plan) {
  const std::unique_ptr<damacy_halo_plan> owner(plan);
}

int damacy_halo_plan_add_field(damacy_halo_plan* plan, const damacy_halo_field* field) {
  return status_of([&] { needed(plan, "plan").fields.push_back(needed(field, "field").spec); });
}

int damacy_halo_plan_add_vector(damacy_halo_plan* plan, int x, int y) {
  return status_of([&] { needed(plan, "plan").options.vectors.emplace_back(x, y); });
}

int damacy_halo_plan_add_axis(damacy_halo_plan* plan, const char* dim, int blocks, const int64_t* cells, int periodic,
                              int64_t before, int64_t after) {
  return status_of([&] {
    damacy_halo_plan changed = needed(plan, "plan");  // an error leaves the plan as it was
    changed.dims.emplace_back(&needed(dim, "dim"));
    const auto sizes = entries(cells, blocks, "cells");
    changed.grid.sizes.emplace_back(sizes.begin(), sizes.end());
    changed.grid.periodic.push_back(periodic != 0);
    changed.widths.push_back({before, after});
    *plan = std::move(changed);
  });
}

int damacy_halo_plan_set_wire(damacy_halo_plan* plan, int wire) {
  return status_of([&] { needed(plan, "plan").options.wire = enumerator(wire, halo::Wire::native, "wire"); });
}

int damacy_halo_plan_compile_grid(damacy_halo_plan* plan, int corners, int64_t rank) {
  return status_of([&] {
    damacy_halo_plan& given = needed(plan, "plan");
    halo::Grid grid = given.grid;
    grid.corners = enumerator(corners, halo::Corners::sequential, "corners");
    given.plan =
        halo::compile(given.fields, halo::Cartesian(std::move(grid)), given.dims, rank, given.widths, given.options);
  });
}

int damacy_halo_plan_compile_cubed_sphere(damacy_halo_plan* plan, int64_t layout, int64_t rank, int64_t width) {
  return status_of([&] {
    damacy_halo_plan& given = needed(plan, "plan");
    given.plan = halo::compile(given.fields, halo::CubedSphere(layout), rank, width, given.options);
  });
}

int damacy_halo_local_create(int ranks, double timeout_s, damacy_halo_transport** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    auto transport = std::make_shared<halo::Local>(ranks, milliseconds_of(timeout_s));
    to = std::make_unique<damacy_halo_transport>(damacy_halo_transport{std::move(transport)}).release();
  });
}

int damacy_halo_callbacks_create(const damacy_halo_callbacks* callbacks, double timeout_s,
                                 damacy_halo_transport** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    auto transport =
        std::make_shared<damacy::detail::CallbackTransport>(needed(callbacks, "callbacks"), milliseconds_of(timeout_s));
    to = std::make_unique<damacy_halo_transport>(damacy_halo_transport{std::move(transport)}).release();
  });
}

void damacy_halo_transport_destroy(damacy_halo_transport* transport) {
  const std::unique_ptr<damacy_halo_transport> owner(transport);
}

int damacy_halo_exchanger_create(const damacy_halo_plan* plan, damacy_halo_transport* transport,
                                 damacy_halo_exchanger** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    const auto compiled = needed(plan, "plan").plan;
    const auto travel = needed(transport, "transport").transport;
    if (compiled == nullptr)
      throw Error(Status::inval, "the plan is not compiled: call damacy_halo_plan_compile_grid or _cubed_sphere",
                  halo::kMisuse);
    to = std::make_unique<damacy_halo_exchanger>(compiled, travel).release();
  });
}

void damacy_halo_exchanger_destroy(damacy_halo_exchanger* exchanger) {
  const std::unique_ptr<damacy_halo_exchanger> owner(exchanger);
}

int damacy_halo_exchange(damacy_halo_exchanger* exchanger, int count, void* const* arrays) {
  return status_of([&] { needed(exchanger, "exchanger").exchanger.exchange(pointers_of(arrays, count)); });
}

int damacy_halo_start(damacy_halo_exchanger* exchanger, int count, void* const* arrays, damacy_halo_token** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    auto token = std::make_unique<damacy_halo_token>();
    token->token = needed(exchanger, "exchanger").exchanger.start(pointers_of(arrays, count));
    to = token.release();
  });
}

int damacy_halo_finish(damacy_halo_exchanger* exchanger, damacy_halo_token* token) {
  const std::unique_ptr<damacy_halo_token> owner(token);
  return status_of([&] {
    auto& from = needed(exchanger, "exchanger").exchanger;
    from.finish(needed(token, "token").token);
  });
}
