#include "damacy/copy/detail/finish_copy.h"

#include <algorithm>
#include <cstring>

namespace damacy::copy_detail {
namespace {

constexpr std::size_t kBlock = 2048;  // elements: what is computed between two copies

Dtype type_of_bits(Dtype dtype) {
  return dtype == Dtype::boolean ? Dtype::u8 : dtype;
}

template <class T>
void clip_all(const Finish& finish, std::byte* elements, std::size_t count) {
  using Bits = UnsignedOf<sizeof(T)>;
  const bool has_low = finish.has_low, has_high = finish.has_high;
  const T low = bits_as<T>(static_cast<Bits>(finish.low));
  const T high = bits_as<T>(static_cast<Bits>(finish.high));
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, elements + i * sizeof(T), sizeof value);
    value = finish_detail::clipped(value, has_low, low, has_high, high);
    std::memcpy(elements + i * sizeof(T), &value, sizeof value);
  }
}

template <int... kTypes>
auto clip_kernel(std::integer_sequence<int, kTypes...>, Dtype to) {
  using Clip = void (*)(const Finish&, std::byte*, std::size_t);
  constexpr Clip kAll[] = {clip_all<Element<static_cast<Dtype>(kTypes)>>...};
  return kAll[static_cast<int>(to)];
}

template <class Float>
void round_all(std::byte* elements, std::size_t count) {
  auto* const at = reinterpret_cast<Float*>(elements);
  for (std::size_t i = 0; i < count; ++i) at[i] = finish_detail::rounded(at[i]);
}

template <class Bits>
void find_missing(const Finish& finish, Dtype from, const std::byte* stored, std::size_t count, std::uint8_t* found) {
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, stored + i * sizeof(Bits), sizeof bits);
    found[i] = is_missing(finish, bits, from);
  }
}

template <class Bits>
void replace(const Finish& finish, const std::uint8_t* found, std::size_t count, std::byte* elements) {
  const auto replacement = static_cast<Bits>(finish.replacement);
  for (std::size_t i = 0; i < count; ++i)
    if (found[i]) std::memcpy(elements + i * sizeof(Bits), &replacement, sizeof replacement);
}

// Calls `act` with a value of the unsigned integer of that size.
template <class Act>
void with_bits(std::size_t bytes, Act act) {
  if (bytes == 1) return act(std::uint8_t{});
  if (bytes == 2) return act(std::uint16_t{});
  if (bytes == 4) return act(std::uint32_t{});
  act(std::uint64_t{});
}

// Elements side by side: stored ones to those of the batch.
class Finisher {
 public:
  Finisher(const CopyOp& op, Isa isa)
      : finish_(*op.finish), from_(op.from), to_(op.to), isa_(isa), working_(working_type(op)) {}

  // The type that the first copy converts to.
  Dtype first() const { return finish_.has_missing() ? type_of_bits(from_) : working_; }
  std::byte* input() { return finish_.has_missing() ? stored_ : one_; }

  // Of `count` elements in input(). They are in memory of this object.
  const std::byte* run(std::size_t count) {
    if (finish_.has_missing()) {
      with_bits(size_of(from_),
                [&](auto bits) { find_missing<decltype(bits)>(finish_, from_, stored_, count, missing_); });
      convert(from_, working_, stored_, one_, count);
    }
    std::byte* elements = compute(count);
    if (finish_.has_low || finish_.has_high)
      clip_kernel(std::make_integer_sequence<int, kBatchDtypes>{}, to_)(finish_, elements, count);
    if (finish_.has_missing())
      with_bits(size_of(to_), [&](auto bits) { replace<decltype(bits)>(finish_, missing_, count, elements); });
    return elements;
  }

 private:
  // That of the arithmetic; without any, the type of the batch.
  static Dtype working_type(const CopyOp& op) {
    const Finish& finish = *op.finish;
    if (finish.computes()) return finish.is_wide ? Dtype::f64 : Dtype::f32;
    const bool rounds = finish.is_rounded && is_float(op.from) && !is_float(op.to);
    return !rounds ? op.to : op.from == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  }

  void convert(Dtype from, Dtype to, const std::byte* src, std::byte* dst, std::size_t count) const {
    row_kernel({from, to}, isa_)({dst, src, count, 1, 0, 0});
  }

  // Converts what is in one_ by way of the working type.
  std::byte* compute(std::size_t count) {
    Dtype type = working_;
    std::byte* now = one_;
    std::byte* next = other_;
    const auto become = [&](Dtype to) {
      if (type == to) return;
      convert(type, to, now, next, count);
      std::swap(now, next);
      type = to;
    };
    if (finish_.computes()) {
      scale_kernel(finish_.is_wide, isa_)(finish_, now, count);
      if (is_narrow(to_)) become(Dtype::f32);
    }
    if (finish_.is_rounded && !is_float(to_)) {
      if (type == Dtype::f64) round_all<double>(now, count);
      if (type == Dtype::f32) round_all<float>(now, count);
    }
    become(to_);
    return now;
  }

  const Finish& finish_;
  const Dtype from_, to_;
  const Isa isa_;
  const Dtype working_;
  alignas(64) std::byte stored_[kBlock * 8];
  alignas(64) std::byte one_[kBlock * 8];
  alignas(64) std::byte other_[kBlock * 8];
  std::uint8_t missing_[kBlock];
};

// The trailing axes of a copy as blocks of at most kBlock elements.
class Blocks {
 public:
  explicit Blocks(const BlockCopy& copy) : copy_(copy), first_(copy.rank) {
    while (first_ > 0 && copy.axes[first_ - 1].extent <= count_left(first_)) --first_;
    if (first_ > 0) {
      step_ = std::max<std::int64_t>(count_left(first_), 1);
      --first_;
    }
  }

  // visit(block): a copy of the same operation.
  template <class Visit>
  void visit(Visit visit) const {
    BlockCopy block;
    block.op = copy_.op;
    block.src_offset = copy_.src_offset;
    block.dst_offset = copy_.dst_offset;
    block.rank = copy_.rank - first_;
    std::copy_n(copy_.axes.begin() + first_, block.rank, block.axes.begin());
    walk(0, block, visit);
  }

 private:
  std::int64_t count_left(std::uint32_t from) const {
    std::int64_t count = 1;
    for (std::uint32_t i = from; i < copy_.rank; ++i) count *= copy_.axes[i].extent;
    return static_cast<std::int64_t>(kBlock) / count;
  }

  template <class Visit>
  void walk(std::uint32_t axis, BlockCopy block, Visit& visit) const {
    if (axis < first_) {
      const CopyAxis& outer = copy_.axes[axis];
      for (std::int64_t i = 0; i < outer.extent; ++i) {
        walk(axis + 1, block, visit);
        block.src_offset += outer.src_stride;
        block.dst_offset += outer.dst_stride;
      }
      return;
    }
    if (step_ == 0) return visit(block);
    const CopyAxis& cut = copy_.axes[first_];
    for (std::int64_t i = 0; i < cut.extent; i += step_) {
      block.axes[0].extent = std::min(step_, cut.extent - i);
      visit(block);
      block.src_offset += step_ * cut.src_stride;
      block.dst_offset += step_ * cut.dst_stride;
    }
  }

  const BlockCopy& copy_;
  std::uint32_t first_;    // of the axes of a block
  std::int64_t step_ = 0;  // along the first axis of a block; 0: blocks have all of it
};

// Strides of elements side by side, in the order of the block's axes.
template <auto kStride>
void set_packed(BlockCopy& copy, std::size_t element) {
  auto stride = static_cast<std::int64_t>(element);
  for (std::uint32_t i = copy.rank; i-- > 0;) {
    copy.axes[i].*kStride = stride;
    stride *= copy.axes[i].extent;
  }
}

void fill_constant(BlockCopy copy, std::byte* dst, const Manner& manner) {
  const std::uint64_t value = copy.op.finish->replacement;
  const Dtype bits = type_of_bits(copy.op.to);
  copy.op = {bits, bits};
  copy.src_offset = 0;
  for (CopyAxis& axis : copy.used()) axis.src_stride = 0;
  normalise(copy);
  execute(copy, reinterpret_cast<const std::byte*>(&value), dst, manner);
}

}  // namespace

void execute_finished(const BlockCopy& copy, const std::byte* src, std::byte* dst, const Manner& manner) {
  if (copy.op.finish->is_constant) return fill_constant(copy, dst, manner);
  if (finish_kernel(copy.op, manner.isa) != nullptr) return execute(copy, src, dst, manner);
  Finisher finisher(copy.op, manner.isa);
  Blocks(copy).visit([&](const BlockCopy& block) {
    std::size_t count = 1;
    for (const CopyAxis& axis : block.used()) count *= static_cast<std::size_t>(axis.extent);

    BlockCopy in = block;
    in.op = {copy.op.finish->has_missing() ? finisher.first() : copy.op.from, finisher.first(), copy.op.swap_bytes};
    in.dst_offset = 0;
    set_packed<&CopyAxis::dst_stride>(in, size_of(in.op.to));
    normalise(in);
    execute(in, src, finisher.input(), {manner.isa, false});

    const std::byte* const elements = finisher.run(count);

    BlockCopy out = block;
    const Dtype bits = type_of_bits(copy.op.to);
    out.op = {bits, bits};
    out.src_offset = 0;
    set_packed<&CopyAxis::src_stride>(out, size_of(bits));
    normalise(out);
    execute(out, elements, dst, manner);
  });
}

}  // namespace damacy::copy_detail
