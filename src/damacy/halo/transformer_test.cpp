// Transformers on the host and on the lazy host device, where a missing wait gives wrong bytes. Python's tests compare
// the bytes of a message with index formulas.
#include "damacy/halo/transformer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>

#include "damacy/device/host_device.h"
#include "damacy/halo/buffer_pool.h"
#include "damacy/halo/plan_cache.h"
#include "damacy/halo/spec.h"
#include "support/error_of.h"

namespace damacy::halo {
namespace {

using Values = std::vector<std::int32_t>;

const Box kAll{{0, 0}, {2, 3}};

HaloExchangeSpec spec(int rotation, Box pack = kAll, Box unpack = kAll) {
  return {dense_field({"j", "i"}, {2, 3}, 0, Dtype::i32), pack, rotation, unpack};
}

Values values_of(std::span<const std::byte> bytes) {
  Values out(bytes.size() / sizeof(std::int32_t));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(Transformer, the_worked_case_of_the_wire) {
  Values field{0, 1, 2, 3, 4, 5};
  const std::array<Values, 4> expected{
      {{0, 1, 2, 3, 4, 5}, {3, 0, 4, 1, 5, 2}, {5, 4, 3, 2, 1, 0}, {2, 5, 1, 4, 0, 3}}};
  for (int r = -4; r < 8; ++r) {
    HaloDataTransformer transformer({spec(r)});
    transformer.pack({field.data()});
    EXPECT_EQ(values_of(transformer.pack_buffer()), expected.at(static_cast<std::size_t>(modulo_4(r)))) << r;
  }
}

TEST(Transformer, vectors_exchange_components_and_a_received_message_unpacks) {
  Values x{0, 1, 2, 3, 4, 5}, y{10, 11, 12, 13, 14, 15}, to_x(6), to_y(6);
  HaloDataTransformer sender({spec(2)}, {spec(2)});
  sender.pack({x.data()}, {y.data()});
  const auto sent = sender.pack_buffer();
  EXPECT_EQ(values_of(sent), (Values{-5, -4, -3, -2, -1, 0, -15, -14, -13, -12, -11, -10}));
  HaloDataTransformer receiver({spec(0)}, {spec(0)});
  std::copy(sent.begin(), sent.end(), receiver.unpack_buffer().begin());
  auto bound = receiver.bind({to_x.data()}, {to_y.data()});
  bound.unpack();
  EXPECT_EQ(to_x, (Values{-5, -4, -3, -2, -1, 0}));
  EXPECT_EQ(to_y, (Values{-15, -14, -13, -12, -11, -10}));
}

TEST(Transformer, the_receive_buffer_has_the_size_of_the_unpack_boxes) {
  HaloDataTransformer transformer({spec(0, kAll, {{0, 0}, {1, 3}})});
  EXPECT_EQ(transformer.pack_buffer().size(), 24u);
  EXPECT_EQ(transformer.unpack_buffer().size(), 12u);
}

TEST(Transformer, native_gaps_are_zero_also_in_a_used_buffer) {
  Values field(6, -1);
  for (int round = 0; round < 2; ++round) {
    HaloDataTransformer transformer({spec(0), spec(0)}, {.wire = Wire::native});
    const auto bytes = transformer.pack_buffer();
    ASSERT_EQ(bytes.size(), 56u);
    EXPECT_EQ(values_of(bytes)[6], 0);
    EXPECT_EQ(values_of(bytes)[0], 0);
    transformer.pack({field.data(), field.data()});
    EXPECT_EQ(values_of(bytes)[6], 0);
    for (const auto used : {bytes, transformer.unpack_buffer()}) std::fill(used.begin(), used.end(), std::byte{7});
  }
}

TEST(Transformer, arrays_may_have_other_strides) {
  Values transposed{0, 3, 1, 4, 2, 5};
  HaloDataTransformer transformer({spec(0)});
  transformer.pack({Array(transposed.data(), {4, 8})});
  EXPECT_EQ(values_of(transformer.pack_buffer()), (Values{0, 1, 2, 3, 4, 5}));
}

TEST(Transformer, what_would_go_wrong_is_refused) {
  EXPECT_EQ(error_of([] { HaloDataTransformer(std::vector<HaloExchangeSpec>{}); }).message(),
            "Attempting to init an empty halo exchange");
  EXPECT_EQ(error_of([] { HaloDataTransformer({spec(0)}, {spec(1)}); }).where().reason, kMisuse);
  auto floats = spec(0);
  floats.quantity.dtype = Dtype::f32;
  EXPECT_EQ(error_of([&] { HaloDataTransformer({spec(0), floats}); }).where().reason, kUnsupported);
  auto bytes = spec(2);
  bytes.quantity.dtype = Dtype::u32;
  EXPECT_EQ(error_of([&] { HaloDataTransformer({bytes}, {bytes}); }).status(), Status::dtype);

  Values field(6);
  const Values constant(6);
  HaloDataTransformer transformer({spec(0), spec(0)});
  EXPECT_EQ(error_of([&] { transformer.pack({field.data()}); }).message(), "Quantities count: 1 for 2 specs in x");
  EXPECT_EQ(error_of([&] { transformer.pack({field.data(), field.data()}, {field.data()}); }).message(),
            "Quantities count: y given for no specs in y");
  EXPECT_THROW(transformer.unpack({field.data(), field.data()}), Error);  // its boxes overlap
  EXPECT_NE(error_of([&] { transformer.unpack({field.data(), constant.data()}); }).message().find("read-only"),
            std::string::npos);
  EXPECT_TRUE(transformer.ready());
  transformer.finalize();
  transformer.finalize();
  EXPECT_FALSE(transformer.ready());
  EXPECT_EQ(error_of([&] { transformer.pack({field.data(), field.data()}); }).message(),
            "this halo transformer is finalized");
  EXPECT_EQ(error_of([&] { transformer.pack_buffer(); }).message(), "Send buffer can't be retrieved before allocate()");
  EXPECT_EQ(error_of([&] { transformer.unpack_buffer(); }).message(),
            "Recv buffer can't be retrieved before allocate()");
}

TEST(Transformer, several_transformers_run_as_one_plan) {
  Values a{0, 1, 2, 3, 4, 5}, b{10, 11, 12, 13, 14, 15}, to_a(6), to_b(6);
  HaloDataTransformer first({spec(0)}), second({spec(1)});
  const std::vector<HaloDataTransformer::Item> items{{&first, {a.data()}}, {&second, {b.data()}}};
  pack_many(items);
  EXPECT_EQ(values_of(first.pack_buffer()), a);
  EXPECT_EQ(values_of(second.pack_buffer()), (Values{13, 10, 14, 11, 15, 12}));
  for (auto* t : {&first, &second}) {
    const auto sent = t->pack_buffer();
    std::copy(sent.begin(), sent.end(), t->unpack_buffer().begin());
  }
  const std::vector<HaloDataTransformer::Item> targets{{&first, {to_a.data()}}, {&second, {to_b.data()}}};
  unpack_many(targets);
  EXPECT_EQ(to_a, a);
  EXPECT_EQ(to_b, (Values{13, 10, 14, 11, 15, 12}));
  const std::vector<HaloDataTransformer::Item> twice{{&first, {a.data()}}, {&first, {b.data()}}};
  EXPECT_THROW(pack_many(twice), Error);
}

TEST(Transformer, the_work_of_streams_is_in_order_without_waits_on_the_host) {
  const auto device = make_host_device({HostOrder::Kind::lazy});
  const auto stream = device->make_stream(), other = device->make_stream();
  Values field(6, 0), received(6, 0), message(6, 0);
  HaloDataTransformer transformer({spec(0)}, {.device = device});
  stream->enqueue({[&] { std::iota(field.begin(), field.end(), 1); }, {}});
  transformer.pack(*stream, {field.data()});
  const auto packed = transformer.pack_buffer(*other);  // later work of `other` waits
  other->copy(std::as_writable_bytes(std::span(message)), packed);
  const auto unpacks = transformer.unpack_buffer(*other);
  other->copy(unpacks, std::as_bytes(std::span(message)));
  stream->wait(other->record());
  transformer.unpack(*stream, {received.data()});
  EXPECT_EQ(received, Values(6, 0));  // nothing ran yet
  transformer.synchronize();
  EXPECT_EQ(received, (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_THROW(transformer.pack({field.data()}), Error);
}

TEST(Transformer, a_buffer_is_lent_again_after_the_work_that_used_it) {
  const auto device = make_host_device({HostOrder::Kind::lazy});
  const auto stream = device->make_stream();
  Values first(6, 1), second(6, 2);
  std::byte* memory = nullptr;
  {
    HaloDataTransformer transformer({spec(0)}, {.device = device});
    transformer.pack(*stream, {first.data()});
    memory = transformer.pack_buffer(*stream).data();
  }
  HaloDataTransformer transformer({spec(0)}, {.device = device});
  transformer.pack(*stream, {second.data()});
  EXPECT_EQ(values_of(transformer.pack_buffer()), second);
  (void)memory;
}

TEST(BufferPool, buffers_are_used_again_and_idle_bytes_are_limited) {
  BufferPool pool(10000);
  auto buffer = pool.take(nullptr, 4096);
  const auto* const memory = buffer.bytes().data();
  pool.give(std::move(buffer));
  EXPECT_EQ(pool.idle_bytes(), 4096u);
  auto again = pool.take(nullptr, 4096);
  EXPECT_EQ(again.bytes().data(), memory);
  EXPECT_EQ(pool.idle_bytes(), 0u);
  pool.give(std::move(again));
  pool.give(pool.take(nullptr, 8000));  // the older one goes
  EXPECT_EQ(pool.idle_bytes(), 8000u);
  pool.give(pool.take(nullptr, 20000));
  EXPECT_EQ(pool.idle_bytes(), 0u);
  EXPECT_TRUE(pool.take(nullptr, 0).bytes().empty());
}

TEST(PlanCache, plans_are_shared_and_their_key_holds_all_that_they_depend_on) {
  Field field{Dtype::i32, {2, 3}, {12, 4}, 1, 0, {}};
  const Message message{{{{0, kAll}, {}, 1, false}}, Wire::ndsl};
  const auto plan = cached_plan({field}, {message}, Direction::pack);
  EXPECT_EQ(cached_plan({field}, {message}, Direction::pack), plan);
  EXPECT_NE(cached_plan({field}, {message}, Direction::unpack), plan);
  Field turned_axes = field;
  std::swap(turned_axes.i_axis, turned_axes.j_axis);
  EXPECT_NE(cached_plan({turned_axes}, {message}, Direction::pack), plan);
  Message native = message;
  native.wire = Wire::native;
  EXPECT_NE(cached_plan({field}, {native}, Direction::pack), plan);
  Field ranked = field;
  ranked.ranking = {4, 12};
  EXPECT_NE(cached_plan({ranked}, {native}, Direction::pack), cached_plan({field}, {native}, Direction::pack));
  EXPECT_NE(cached_plan({field}, {message}, Direction::pack, {}, /*adjoint=*/true), plan);
  EXPECT_NE(cached_plan({field, field}, {message}, Direction::pack),
            cached_plan({field, field}, {message}, Direction::pack, {{{{0, kAll}, {}, 0, false}, {1, kAll}, {}}}));
  clear_cached_plans();
  EXPECT_TRUE(cached_plans().empty());
  EXPECT_NE(cached_plan({field}, {message}, Direction::pack), plan);  // which its owner still has
  EXPECT_EQ(cached_plans().size(), 1u);
}

}  // namespace
}  // namespace damacy::halo
