#include "damacy/copy/block_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "damacy/copy/convert.h"
#include "damacy/copy/detail/execute.h"
#include "damacy/copy/detail/float_mode.h"
#include "damacy/copy/detail/joined_rows.h"
#include "damacy/core/error.h"

namespace damacy {
namespace {

using copy_detail::Isa;
using copy_detail::Manner;
using Bytes = std::vector<std::byte>;

// One element, the way block_copy.h words it.

using ConvertElement = void (*)(std::byte* dst, const std::byte* src);

template <Dtype kFrom, Dtype kTo>
void convert_element(std::byte* dst, const std::byte* src) {
  Element<kFrom> value;
  std::memcpy(&value, src, sizeof value);
  const auto result = convert<Element<kTo>>(value);
  std::memcpy(dst, &result, sizeof result);
}

template <int... kPairs>
constexpr auto make_table(std::integer_sequence<int, kPairs...>) {
  return std::array<ConvertElement, sizeof...(kPairs)>{
      &convert_element<static_cast<Dtype>(kPairs / kBatchDtypes), static_cast<Dtype>(kPairs % kBatchDtypes)>...};
}
constexpr auto kTable = make_table(std::make_integer_sequence<int, kBatchDtypes * kBatchDtypes>{});

void naive_element(const CopyOp& op, std::byte* dst, const std::byte* src) {
  std::byte value[16];
  const std::size_t bytes = size_of(op.from);
  std::memcpy(value, src, bytes);
  if (op.swap_bytes)
    for (std::size_t at = 0; at < bytes; at += scalar_size_of(op.from))
      std::reverse(value + at, value + at + scalar_size_of(op.from));
  if (op.from == op.to && op.from != Dtype::boolean)
    std::memcpy(dst, value, bytes);
  else
    kTable[static_cast<std::size_t>(op.from) * kBatchDtypes + static_cast<std::size_t>(op.to)](dst, value);
}

void naive_copy(const BlockCopy& copy, const std::byte* src, std::byte* dst, std::size_t axis = 0) {
  if (axis == 0) {
    src += copy.src_offset;
    dst += copy.dst_offset;
  }
  if (axis == copy.rank) return naive_element(copy.op, dst, src);
  const CopyAxis& a = copy.axes[axis];
  for (std::int64_t i = 0; i < a.extent; ++i)
    naive_copy(copy, src + i * a.src_stride, dst + i * a.dst_stride, axis + 1);
}

// Copies to build on.

BlockCopy make_copy(CopyOp op, std::initializer_list<CopyAxis> axes, std::int64_t src = 0, std::int64_t dst = 0) {
  BlockCopy copy;
  copy.op = op;
  copy.src_offset = src;
  copy.dst_offset = dst;
  for (const CopyAxis& a : axes) copy.axes[copy.rank++] = a;
  return copy;
}

struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Extent reach(const BlockCopy& copy, std::int64_t CopyAxis::* stride, std::size_t bytes) {
  Extent e{0, static_cast<std::int64_t>(bytes)};
  for (const CopyAxis& a : copy.used())
    (a.*stride < 0 ? e.begin : e.end) += std::max<std::int64_t>(a.extent - 1, 0) * (a.*stride);
  return e;
}

// A random block: random strides in the source, a padded row-major box with permuted and turned axes in the
// destination.
class RandomCopies {
 public:
  explicit RandomCopies(unsigned seed) : random_(seed) {}

  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }

  CopyOp op() {
    if (below(8) == 0) {
      const auto type = static_cast<Dtype>(below(17));
      return {type, type, below(2) == 0};
    }
    return {static_cast<Dtype>(below(kBatchDtypes)), static_cast<Dtype>(below(kBatchDtypes)), below(2) == 0};
  }

  BlockCopy copy() {
    BlockCopy copy;
    copy.op = op();
    copy.rank = static_cast<std::uint32_t>(below(7));
    const std::int64_t longest = copy.rank > 3 ? 7 : copy.rank > 1 ? 70 : 1500;
    for (CopyAxis& axis : copy.used()) axis.extent = below(40) == 0 ? 0 : below(4) == 0 ? 1 : 1 + below(longest);
    set_strides(copy, &CopyAxis::src_stride, size_of(copy.op.from), /*is_source=*/true);
    set_strides(copy, &CopyAxis::dst_stride, size_of(copy.op.to), /*is_source=*/false);
    copy.src_offset = -reach(copy, &CopyAxis::src_stride, size_of(copy.op.from)).begin + below(20);
    copy.dst_offset = -reach(copy, &CopyAxis::dst_stride, size_of(copy.op.to)).begin + below(20);
    return copy;
  }

  Bytes bytes(std::size_t size) {
    Bytes bytes(size);
    for (auto& b : bytes) b = static_cast<std::byte>(random_());
    return bytes;
  }

 private:
  void set_strides(BlockCopy& copy, std::int64_t CopyAxis::* stride, std::size_t bytes, bool is_source) {
    std::vector<std::size_t> order(copy.rank);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (below(2) == 0) std::shuffle(order.begin(), order.end(), random_);
    auto next = static_cast<std::int64_t>(bytes);
    if (below(8) == 0) next += below(5);  // elements apart
    for (std::size_t i = order.size(); i-- > 0;) {
      CopyAxis& axis = copy.axes[order[i]];
      const bool turned = below(8) == 0;
      axis.*stride = is_source && below(10) == 0 ? 0 : turned ? -next : next;
      next *= std::max<std::int64_t>(axis.extent, 1);
      if (below(3) == 0) next += below(30);
    }
  }

  std::mt19937 random_;
};

struct Case {
  BlockCopy copy;
  Bytes src;
  Bytes dst;
  Bytes wanted;
};

Case make_case(const BlockCopy& copy, RandomCopies& random) {
  Case c{copy, {}, {}, {}};
  const auto src_end = copy.src_offset + reach(copy, &CopyAxis::src_stride, size_of(copy.op.from)).end;
  const auto dst_end = copy.dst_offset + reach(copy, &CopyAxis::dst_stride, size_of(copy.op.to)).end;
  c.src = random.bytes(static_cast<std::size_t>(src_end));
  c.dst = random.bytes(static_cast<std::size_t>(dst_end + 70));  // more, to see stores past the end
  c.wanted = c.dst;
  naive_copy(copy, c.src.data(), c.wanted.data());
  return c;
}

std::string describe(const BlockCopy& copy) {
  std::string s = std::string(name_of(copy.op.from)) + " to " + std::string(name_of(copy.op.to)) +
                  (copy.op.swap_bytes ? " swapped" : "");
  for (const CopyAxis& a : copy.used())
    s += " [" + std::to_string(a.extent) + ": " + std::to_string(a.src_stride) + ", " + std::to_string(a.dst_stride) +
         "]";
  return s;
}

std::vector<Isa> supported() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512})
    if (copy_detail::is_supported(isa)) isas.push_back(isa);
  return isas;
}

bool is_empty(const BlockCopy& copy) {
  return std::ranges::any_of(copy.used(), [](const CopyAxis& a) { return a.extent == 0; });
}

// EXPECT_EQ would print both.
bool same(const Bytes& a, const Bytes& b) {
  return a == b;
}

TEST(RunBlockCopy, agrees_with_the_element_loop_on_random_blocks) {
  RandomCopies random(1);
  for (int i = 0; i < 4000; ++i) {
    Case c = make_case(random.copy(), random);
    BlockCopy copy = c.copy;
    normalise(copy);
    run_block_copy(copy, c.src, c.dst);
    ASSERT_TRUE(same(c.dst, c.wanted)) << "case " << i << ": " << describe(c.copy);
  }
}

TEST(RunBlockCopy, gives_the_same_bytes_whatever_the_processor_and_the_stores) {
  RandomCopies random(2);
  for (int i = 0; i < 1500; ++i) {
    const Case c = make_case(random.copy(), random);
    BlockCopy copy = c.copy;
    normalise(copy);
    if (is_empty(copy)) continue;
    for (const Isa isa : supported())
      for (const bool stream : {false, true}) {
        Bytes dst = c.dst;
        copy_detail::execute(copy, c.src.data(), dst.data(), {isa, stream});
        ASSERT_TRUE(same(dst, c.wanted)) << "case " << i << ": " << describe(c.copy) << " isa " << static_cast<int>(isa)
                                         << " stream " << stream;
      }
  }
}

TEST(RunBlockCopy, streams_into_a_large_batch_whole_lines_and_ragged_rows_alike) {
  RandomCopies random(6);
  for (const std::int64_t ragged : {0, 2, 66}) {
    const BlockCopy copy = make_copy({Dtype::u16, Dtype::u16, true}, {{9, 2000, 1024}, {448, 2, 2}}, 0, ragged);
    const Case c = make_case(copy, random);
    Bytes lines(c.dst.size() + 64);
    const auto up = (0 - reinterpret_cast<std::uintptr_t>(lines.data())) % 64;
    const auto dst = std::span(lines).subspan(up, c.dst.size());
    std::ranges::copy(c.dst, dst.begin());
    run_block_copy(copy, c.src, dst, std::size_t{1} << 30);
    EXPECT_TRUE(std::ranges::equal(dst, c.wanted)) << "ragged by " << ragged;
  }
}

// A box of the destination that is cut along its last axis, as crops over several chunks are. Each piece has a source
// of its own.
struct CutBox {
  std::vector<Bytes> sources;
  std::vector<SourcedCopy> pieces;
  Bytes dst, wanted;
};

CutBox make_cut_box(CopyOp op, std::span<const std::int64_t> widths, std::array<std::int64_t, 2> outer,
                    std::int64_t dst_offset, RandomCopies& random) {
  const auto from = static_cast<std::int64_t>(size_of(op.from)), to = static_cast<std::int64_t>(size_of(op.to));
  const std::int64_t row = std::accumulate(widths.begin(), widths.end(), std::int64_t{0}) * to;
  const std::int64_t pitch = row + (random.below(2) == 0 ? 0 : 64 * random.below(3));
  CutBox box;
  box.dst = box.wanted = random.bytes(static_cast<std::size_t>(dst_offset + outer[0] * (outer[1] + 1) * pitch + 200));
  std::int64_t at = dst_offset;
  for (const std::int64_t width : widths) {
    const std::int64_t chunk = width + random.below(40);
    BlockCopy copy = make_copy(op,
                               {{outer[0], (outer[1] + random.below(3)) * chunk * from, (outer[1] + 1) * pitch},
                                {outer[1], chunk * from, pitch},
                                {width, from, to}},
                               random.below(50), at);
    const auto end = copy.src_offset + reach(copy, &CopyAxis::src_stride, size_of(op.from)).end;
    box.sources.push_back(random.bytes(static_cast<std::size_t>(end + random.below(2) * random.below(80) * from)));
    naive_copy(copy, box.sources.back().data(), box.wanted.data());
    normalise(copy);
    box.pieces.push_back({copy, {}});
    at += width * to;
  }
  for (std::size_t i = 0; i < box.pieces.size(); ++i) box.pieces[i].src = box.sources[i];
  return box;
}

constexpr std::size_t kLargeBatch = std::size_t{1} << 30;

TEST(RunBlockCopies, agree_with_the_element_loop_on_boxes_that_are_cut_anywhere) {
  RandomCopies random(7);
  std::size_t joined = 0;
  for (int i = 0; i < 600; ++i) {
    std::vector<std::int64_t> widths(static_cast<std::size_t>(1 + random.below(i % 50 == 0 ? 20 : 4)));
    for (std::int64_t& width : widths) width = 1 + random.below(random.below(4) == 0 ? 400 : 80);
    CutBox box = make_cut_box(random.op(), widths, {1 + random.below(4), 1 + random.below(30)},
                              random.below(2) * random.below(100), random);
    joined += copy_detail::count_joined(box.pieces, box.dst.data()) > 1;
    run_block_copies(box.pieces, box.dst, kLargeBatch);
    ASSERT_TRUE(same(box.dst, box.wanted)) << "case " << i << ": " << describe(box.pieces[0].copy);
  }
  EXPECT_GT(joined, 100u);
}

TEST(RunBlockCopies, join_rows_whatever_the_processor) {
  RandomCopies random(8);
  for (const CopyOp op : {CopyOp{Dtype::u16, Dtype::f32, false}, CopyOp{Dtype::f32, Dtype::bf16, true}}) {
    const std::int64_t widths[] = {23, 300, 64, 2};
    const CutBox box = make_cut_box(op, widths, {3, 21}, 0, random);
    ASSERT_EQ(copy_detail::count_joined(box.pieces, box.dst.data()), 4u);
    for (const Isa isa : supported()) {
      Bytes dst = box.dst;
      copy_detail::execute_joined(box.pieces, dst.data(), isa);
      EXPECT_TRUE(same(dst, box.wanted)) << "isa " << static_cast<int>(isa);
    }
  }
}

TEST(RunBlockCopies, join_only_what_follows_along_a_row) {
  RandomCopies random(9);
  const std::int64_t widths[] = {100, 100, 100};
  const CopyOp op{Dtype::u16, Dtype::f32, false};
  const CutBox box = make_cut_box(op, widths, {3, 21}, 0, random);
  const auto count_with = [&](auto change) {
    auto pieces = box.pieces;
    change(pieces[1].copy);
    return copy_detail::count_joined(pieces, box.dst.data());
  };
  EXPECT_EQ(count_with([](BlockCopy&) {}), 3u);
  EXPECT_EQ(count_with([](BlockCopy& copy) { copy.dst_offset += 4; }), 1u);
  EXPECT_EQ(count_with([](BlockCopy& copy) { copy.axes[0].extent = 2; }), 1u);
  EXPECT_EQ(count_with([](BlockCopy& copy) { copy.axes[1].dst_stride += 4; }), 1u);
  EXPECT_EQ(count_with([](BlockCopy& copy) { copy.op.swap_bytes = true; }), 1u);
  EXPECT_EQ(count_with([](BlockCopy& copy) { copy.axes[2].src_stride = -2; }), 1u);
  const std::span<const SourcedCopy> last = std::span(box.pieces).subspan(2);  // 400 bytes, not whole lines
  EXPECT_EQ(copy_detail::count_joined(last, box.dst.data()), 1u);
}

TEST(RunBlockCopies, read_and_write_nothing_beyond_their_bounds) {
  RandomCopies random(10);
  const std::int64_t widths[] = {100, 100};
  const CutBox box = make_cut_box({Dtype::u16, Dtype::f32, false}, widths, {3, 21}, 0, random);
  Bytes dst = box.dst;
  for (std::size_t i = 0; i < 2; ++i) {
    auto pieces = box.pieces;
    pieces[i].src = pieces[i].src.first(100);
    EXPECT_THROW(run_block_copies(pieces, dst, kLargeBatch), Error);
  }
  EXPECT_THROW(run_block_copies(box.pieces, std::span(dst).first(1000), kLargeBatch), Error);
  EXPECT_TRUE(same(dst, box.dst));
}

TEST(RunBlockCopies, skip_the_empty) {
  RandomCopies random(11);
  const std::int64_t widths[] = {100, 100};
  CutBox box = make_cut_box({Dtype::u16, Dtype::f32, false}, widths, {3, 21}, 0, random);
  BlockCopy empty = make_copy({}, {{0, 1, 1}});
  box.pieces.push_back({empty, {}});
  run_block_copies(box.pieces, box.dst, kLargeBatch);
  EXPECT_TRUE(same(box.dst, box.wanted));
}

TEST(RunBlockCopy, knows_every_pair_of_types) {
  RandomCopies random(3);
  for (int from = 0; from < 17; ++from)
    for (int to = 0; to < 17; ++to)
      for (const bool swap : {false, true}) {
        const CopyOp op{static_cast<Dtype>(from), static_cast<Dtype>(to), swap};
        if (!has_conversion(op.from, op.to)) continue;
        const auto src_bytes = static_cast<std::int64_t>(size_of(op.from));
        const auto dst_bytes = static_cast<std::int64_t>(size_of(op.to));
        const BlockCopy copy = make_copy(op, {{3, 80 * src_bytes, 77 * dst_bytes}, {77, src_bytes, dst_bytes}}, 1, 3);
        const Case c = make_case(copy, random);
        for (const Isa isa : supported()) {
          Bytes dst = c.dst;
          copy_detail::execute(copy, c.src.data(), dst.data(), {isa, false});
          ASSERT_TRUE(same(dst, c.wanted)) << describe(copy) << " isa " << static_cast<int>(isa);
        }
      }
}

TEST(RunBlockCopy, turns_blocks_of_any_size_and_element) {
  RandomCopies random(4);
  for (const Dtype type : {Dtype::u8, Dtype::u16, Dtype::f32, Dtype::u64, Dtype::complex128})
    for (const std::int64_t height : {1, 3, 8, 16, 17, 64, 65, 130})
      for (const std::int64_t width : {2, 4, 15, 16, 33, 64, 129}) {
        const auto bytes = static_cast<std::int64_t>(size_of(type));
        const BlockCopy copy =
            make_copy({type, type}, {{height, bytes, width * bytes}, {width, height * bytes, bytes}});
        Case c = make_case(copy, random);
        run_block_copy(copy, c.src, c.dst);
        ASSERT_TRUE(same(c.dst, c.wanted)) << describe(copy);
      }
}

TEST(RunBlockCopy, turns_a_block_and_changes_its_type_on_the_way) {
  const std::uint16_t src[] = {0x0100, 0x0200, 0x0300, 0x0400, 0x0500, 0x0600};  // 2 x 3, big-endian
  float dst[6] = {};
  BlockCopy copy = make_copy({Dtype::u16, Dtype::f32, true}, {{2, 6, 4}, {3, 2, 8}});
  normalise(copy);
  run_block_copy(copy, std::as_bytes(std::span(src)), std::as_writable_bytes(std::span(dst)));
  EXPECT_EQ(std::vector<float>(dst, dst + 6), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(RunBlockCopy, repeats_one_element_where_the_source_stands_still) {
  const float fill = -0.0f;
  std::vector<float> dst(10000, 1.0f);
  BlockCopy copy = make_copy({Dtype::f32, Dtype::f32}, {{100, 0, 400}, {99, 0, 4}});
  normalise(copy);
  run_block_copy(copy, std::as_bytes(std::span(&fill, 1)), std::as_writable_bytes(std::span(dst)));
  for (std::size_t i = 0; i < dst.size(); ++i)
    ASSERT_EQ(bits_as<std::uint32_t>(dst[i]), i % 100 < 99 ? 0x80000000u : 0x3f800000u) << i;
}

TEST(RunBlockCopy, copies_one_element_when_there_are_no_axes) {
  const std::uint8_t src = 7;
  double dst = 0;
  run_block_copy(make_copy({Dtype::u8, Dtype::f64}, {}), std::as_bytes(std::span(&src, 1)),
                 std::as_writable_bytes(std::span(&dst, 1)));
  EXPECT_EQ(dst, 7.0);
}

TEST(RunBlockCopy, touches_nothing_when_empty) {
  const BlockCopy far_off = make_copy({}, {{5, 1, 1}, {0, 1, 1}}, 1000, 1000);
  EXPECT_NO_THROW(run_block_copy(far_off, {}, {}));
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(RunBlockCopy, rounds_and_keeps_subnormals_however_the_thread_was_set_up) {
  // Flush to zero and round up; on x86-64 subnormals that are read are zero, too.
#ifdef __x86_64__
  constexpr copy_detail::FloatControl kUnusual = 0x8040 | 0x4000;
#else
  constexpr copy_detail::FloatControl kUnusual = 1u << 24 | 1u << 22;
#endif
  const copy_detail::FloatControl before = copy_detail::float_control();
  const double src[] = {1.0 + 0x1p-30, 0x1p-140};
  float dst[2] = {};
  copy_detail::set_float_control(before | kUnusual);
  run_block_copy(make_copy({Dtype::f64, Dtype::f32}, {{2, 8, 4}}), std::as_bytes(std::span(src)),
                 std::as_writable_bytes(std::span(dst)));
  const copy_detail::FloatControl after = copy_detail::float_control();
  copy_detail::set_float_control(before);
  EXPECT_EQ(bits_as<std::uint32_t>(dst[0]), 0x3f800000u);
  EXPECT_EQ(bits_as<std::uint32_t>(dst[1]), 0x200u);
  EXPECT_EQ(after & ~copy_detail::kFloatsThatHappened, (before | kUnusual) & ~copy_detail::kFloatsThatHappened)
      << "the thread's own setting is back";
}
#endif

// Bounds: what does not fit by one byte is refused, and nothing is written.

class RunBlockCopyBounds : public testing::Test {
 protected:
  void expect_refused(const BlockCopy& copy, std::size_t src_size, std::size_t dst_size) {
    const Bytes src(src_size);
    Bytes dst(dst_size, std::byte{0xab});
    try {
      run_block_copy(copy, src, dst);
      ADD_FAILURE() << "ran: " << describe(copy);
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), Status::inval);
    }
    EXPECT_TRUE(same(dst, Bytes(dst_size, std::byte{0xab})));
  }
  void expect_runs(const BlockCopy& copy, std::size_t src_size, std::size_t dst_size) {
    const Bytes src(src_size);
    Bytes dst(dst_size, std::byte{0xab});
    EXPECT_NO_THROW(run_block_copy(copy, src, dst)) << describe(copy);
    EXPECT_FALSE(same(dst, Bytes(dst_size, std::byte{0xab})));
  }
};

TEST_F(RunBlockCopyBounds, hold_to_the_byte) {
  const BlockCopy copy = make_copy({Dtype::u16, Dtype::f32}, {{3, 20, 40}, {5, 2, 4}}, 6, 8);
  const std::size_t src = 6 + 2 * 20 + 5 * 2;
  const std::size_t dst = 8 + 2 * 40 + 5 * 4;
  expect_runs(copy, src, dst);
  expect_refused(copy, src - 1, dst);
  expect_refused(copy, src, dst - 1);
}

TEST_F(RunBlockCopyBounds, hold_below_the_first_byte) {
  const BlockCopy from_the_end = make_copy({}, {{5, -1, 1}}, 4, 0);
  expect_runs(from_the_end, 5, 5);
  expect_refused(make_copy({}, {{5, -1, 1}}, 3, 0), 5, 5);
  expect_refused(make_copy({}, {{5, 1, 1}}, 0, -1), 5, 5);
}

TEST_F(RunBlockCopyBounds, survive_numbers_that_wrap_around) {
  const auto huge = std::int64_t{1} << 62;
  expect_refused(make_copy({}, {{5, huge, 1}}), 100, 100);
  expect_refused(make_copy({}, {{3, huge, 1}, {3, huge, 3}}), 100, 100);
  expect_refused(make_copy({}, {{huge, 8, 8}}), 100, 100);
  expect_refused(make_copy({}, {{2, INT64_MIN, 1}}), 100, 100);
  expect_refused(make_copy({}, {{2, 1, 1}}, INT64_MAX, 0), 100, 100);
  expect_refused(make_copy({}, {{2, 1, 1}}, 0, INT64_MAX), 100, 100);
}

TEST_F(RunBlockCopyBounds, refuse_what_is_no_block) {
  expect_refused(make_copy({}, {{-1, 1, 1}}), 100, 100);
  expect_refused(make_copy({}, {{2, 1, 0}}), 100, 100);
  expect_refused(make_copy({Dtype::complex64, Dtype::f32}, {{2, 8, 4}}), 100, 100);
  BlockCopy too_deep = make_copy({}, {});
  too_deep.rank = 33;
  expect_refused(too_deep, 100, 100);
}

}  // namespace
}  // namespace damacy
