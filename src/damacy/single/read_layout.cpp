#include "damacy/single/read_layout.h"

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

Dims strides_of_axes(const ResolvedSelection& what, const Dims& of_result) {
  Dims strides;
  std::size_t at = 0;
  for (const bool keeps : what.keeps) strides.push_back(keeps ? of_result[at++] : 0);
  return strides;
}

ReadLayout dense_layout(const ResolvedSelection& what, const ReadOutput& out, std::int64_t element) {
  const auto elements = product(what.shape.span());
  const std::uint64_t bytes =
      elements ? static_cast<std::uint64_t>(*elements) * static_cast<std::uint64_t>(element) : 0;
  if (!elements || bytes != out.memory.size())
    throw Error(Status::inval, formatted("the elements have {} bytes and the output {}", bytes, out.memory.size()),
                "aabb");
  Dims strides = row_major_strides(what.shape);
  for (std::int64_t& stride : strides) stride *= element;
  return {out.memory, 0, strides_of_axes(what, strides)};
}

ReadLayout strided_layout(const ResolvedSelection& what, const ReadOutput& out, std::int64_t element) {
  const Dims& strides = *out.strides;
  if (strides.size() != what.shape.size())
    throw Error(Status::rank, formatted("{} strides for a result of {} axes", strides.size(), what.shape.size()),
                "rank");
  const auto size = static_cast<std::int64_t>(out.memory.size());
  std::int64_t low = out.first, high = out.first + element;
  bool is_inside = out.first >= 0 && out.first <= size;
  for (std::size_t axis = 0; is_inside && axis < strides.size(); ++axis) {
    if (what.shape[axis] < 2) continue;
    if (strides[axis] == 0)
      throw Error(Status::inval, formatted("axis {} of the output has stride 0", axis), "arguments");
    const auto reach = checked_mul(what.shape[axis] - 1, strides[axis]);
    is_inside = reach && *reach <= size && *reach >= -size;
    if (is_inside) (*reach < 0 ? low : high) += *reach;
  }
  if (!is_inside || low < 0 || high > size)
    throw Error(Status::inval,
                formatted("a result of shape {} with strides {} from byte {} is not inside an output of {} bytes",
                          tuple_text(what.shape.span()), tuple_text(strides.span()), out.first, size),
                "aabb");
  const auto part = out.memory.subspan(static_cast<std::size_t>(low), static_cast<std::size_t>(high - low));
  return {part, out.first - low, strides_of_axes(what, strides)};
}

}  // namespace

ReadLayout layout_of(const ResolvedSelection& what, const ReadOutput& out, std::int64_t element) {
  return out.strides ? strided_layout(what, out, element) : dense_layout(what, out, element);
}

}  // namespace damacy
