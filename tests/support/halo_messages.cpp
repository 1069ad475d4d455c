// Packs and unpacks by the C++ transformers what tests in Python describe, so that they can compare every byte with
// index formulas. Reads cases from standard input, as words:
//   native dtype, number of x specs, number of y specs; for each spec: its rank, then for each dimension its name,
//   length, stride, and the ends of both boxes; the rotation, where the first element is, and the memory in hex;
//   then the received message in hex, "-" for none.
// Prints for each case a line: the packed message, and the memory of each spec after the message was unpacked.
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "damacy/halo.h"

namespace halo = damacy::halo;

namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const std::string& hex) {
  Bytes out;
  if (hex == "-") return out;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

std::string hex_of(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = bytes.empty() ? "-" : "";
  for (const auto b : bytes) {
    out += kDigits[std::to_integer<unsigned>(b) >> 4];
    out += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

template <class T>
T next() {
  T value{};
  if (!(std::cin >> value)) throw damacy::Error(damacy::Status::inval, "the input ended in a case");
  return value;
}

struct Field {
  halo::HaloExchangeSpec spec;
  Bytes memory;
  std::size_t first = 0;
};

Field next_field(damacy::Dtype dtype) {
  Field field;
  auto& q = field.spec.quantity;
  q.dtype = dtype;
  for (int rank = next<int>(); rank > 0; --rank) {
    q.dims.push_back(next<std::string>());
    q.shape.push_back(next<std::int64_t>());
    q.strides.push_back(next<std::int64_t>());
    for (auto* box : {&field.spec.pack, &field.spec.unpack}) {
      box->start.push_back(next<std::int64_t>());
      box->stop.push_back(next<std::int64_t>());
    }
    q.origin.push_back(0);
    q.extent.push_back(q.shape[q.shape.size() - 1]);
  }
  field.spec.rotation = next<int>();
  field.first = next<std::size_t>();
  field.memory = bytes_of(next<std::string>());
  return field;
}

void run(bool native) {
  const auto dtype = static_cast<damacy::Dtype>(next<int>());
  const auto count_x = next<std::size_t>(), count_y = next<std::size_t>();
  std::vector<Field> fields;
  for (std::size_t i = 0; i < count_x + count_y; ++i) fields.push_back(next_field(dtype));
  const Bytes received = bytes_of(next<std::string>());
  std::vector<halo::HaloExchangeSpec> x, y;
  halo::Arrays arrays_x, arrays_y;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    (i < count_x ? x : y).push_back(fields[i].spec);
    (i < count_x ? arrays_x : arrays_y).push_back(static_cast<void*>(fields[i].memory.data() + fields[i].first));
  }
  const halo::TransformerOptions options{.wire = native ? halo::Wire::native : halo::Wire::ndsl};
  auto transformer = count_y == 0 ? halo::HaloDataTransformer(x, options) : halo::HaloDataTransformer(x, y, options);
  transformer.pack(arrays_x, arrays_y);
  std::string line = hex_of(transformer.pack_buffer());
  const auto buffer = transformer.unpack_buffer();
  if (buffer.size() != received.size())
    throw damacy::Error(damacy::Status::inval, "the received message has another size than the buffer");
  std::copy(received.begin(), received.end(), buffer.begin());
  transformer.unpack(arrays_x, arrays_y);
  for (const Field& field : fields) line.append(" ").append(hex_of(field.memory));
  std::printf("%s\n", line.c_str());
}

}  // namespace

int main() {
  try {
    for (int native = 0; std::cin >> native;) run(native != 0);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
