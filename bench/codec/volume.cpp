#include "volume.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <random>

namespace damacy::bench {
namespace {

using Complex = std::complex<float>;
using Random = std::mt19937_64;

constexpr std::size_t kSlab = 64;  // a field is periodic over this depth

// In place; the length is a power of two; the inverse transform is not scaled.
void transform(Complex* data, std::size_t length, std::size_t stride, bool inverse) {
  std::vector<Complex> line(length);
  for (std::size_t i = 0, reversed = 0; i < length; ++i) {
    line[reversed] = data[i * stride];
    std::size_t bit = length >> 1;
    for (; (reversed & bit) != 0; bit >>= 1) reversed ^= bit;
    reversed |= bit;
  }
  for (std::size_t half = 1; half < length; half *= 2) {
    const float angle = (inverse ? 1.0f : -1.0f) * std::numbers::pi_v<float> / static_cast<float>(half);
    for (std::size_t k = 0; k < half; ++k) {
      const Complex twist = std::polar(1.0f, angle * static_cast<float>(k));
      for (std::size_t i = k; i < length; i += 2 * half) {
        const Complex low = line[i], high = line[i + half] * twist;
        line[i] = low + high;
        line[i + half] = low - high;
      }
    }
  }
  for (std::size_t i = 0; i < length; ++i) data[i * stride] = line[i];
}

void transform_all(std::vector<Complex>& field, bool inverse, Crew& crew) {
  constexpr std::size_t kRow = Volume::kWidth, kPlane = kRow * Volume::kHeight;
  crew.each(
      kSlab * Volume::kHeight, [&](std::size_t i, std::size_t) { transform(&field[i * kRow], kRow, 1, inverse); }, 64);
  crew.each(
      kSlab * kRow,
      [&](std::size_t i, std::size_t) {
        transform(&field[i / kRow * kPlane + i % kRow], Volume::kHeight, kRow, inverse);
      },
      64);
  crew.each(kPlane, [&](std::size_t i, std::size_t) { transform(&field[i], kSlab, kPlane, inverse); }, 64);
}

float frequency(std::size_t i, std::size_t length) {
  const auto signed_index = static_cast<float>(i < length - i ? i : length - i);
  return signed_index / static_cast<float>(length);
}

// Noise whose spectrum falls with the power 1.6 of the frequency.
std::vector<Complex> smooth_field(std::uint64_t seed, Crew& crew) {
  constexpr std::size_t kRow = Volume::kWidth, kPlane = kRow * Volume::kHeight;
  std::vector<Complex> field(kSlab * kPlane);
  crew.each(kSlab, [&](std::size_t z, std::size_t) {
    Random random(seed * 1000 + z);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < kPlane; ++i) field[z * kPlane + i] = normal(random);
  });
  transform_all(field, false, crew);
  crew.each(kSlab, [&](std::size_t z, std::size_t) {
    for (std::size_t i = 0; i < kPlane; ++i) {
      const float a = frequency(z, kSlab), b = frequency(i / kRow, Volume::kHeight), c = frequency(i % kRow, kRow);
      const float square = a * a + b * b + c * c;
      field[z * kPlane + i] *= square == 0 ? 0.0f : std::pow(square, -0.8f);
    }
  });
  transform_all(field, true, crew);
  return field;
}

void add_microscopy_slab(std::uint64_t seed, std::uint16_t* to, Crew& crew) {
  constexpr std::size_t kPlane = Volume::kWidth * Volume::kHeight;
  const std::vector<Complex> field = smooth_field(seed, crew);
  double sum = 0, squares = 0;
  for (const Complex& value : field) {
    sum += value.real();
    squares += double{value.real()} * value.real();
  }
  const double count = static_cast<double>(field.size()), mean = sum / count;
  const double deviation = std::sqrt(squares / count - mean * mean);
  crew.each(kSlab, [&](std::size_t z, std::size_t) {
    Random random(seed * 1000 + 500 + z);
    std::normal_distribution<float> normal;
    for (std::size_t i = z * kPlane; i < (z + 1) * kPlane; ++i) {
      const double level = (field[i].real() - mean) / deviation;
      const double signal = (level > 1 ? (level - 1) * 120 : 0) + 3;
      std::poisson_distribution<int> photons(signal);
      const double electrons = photons(random) + 1.6 * static_cast<double>(normal(random));
      to[i] = static_cast<std::uint16_t>(std::clamp(std::nearbyint(electrons * 2.17 + 100), 0.0, 65535.0));
    }
  });
}

void add_half_zeros(std::size_t plane, std::uint16_t* to, std::size_t count) {
  Random random(42 + plane);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t value = random();
    to[i] = (value >> 32 & 1) != 0 ? static_cast<std::uint16_t>(value) : std::uint16_t{0};
  }
}

}  // namespace

Volume make_volume(Content content, Crew& crew) {
  constexpr std::size_t kPlane = Volume::kWidth * Volume::kHeight;
  Volume volume;
  volume.elements.resize(Volume::kDepth * kPlane);
  if (content == Content::e50) {
    crew.each(Volume::kDepth,
              [&](std::size_t z, std::size_t) { add_half_zeros(z, &volume.elements[z * kPlane], kPlane); });
  } else {
    for (std::size_t z = 0; z < Volume::kDepth; z += kSlab)
      add_microscopy_slab(z + 1, &volume.elements[z * kPlane], crew);
  }
  return volume;
}

std::vector<Bytes> cut(const Volume& volume, const ChunkShape& shape, bool shuffle, Crew& crew) {
  const std::size_t rows = Volume::kHeight / shape.height, columns = Volume::kWidth / shape.width;
  std::vector<Bytes> chunks(Volume::kDepth / shape.depth * rows * columns);
  crew.each(chunks.size(), [&](std::size_t i, std::size_t) {
    const std::size_t z0 = i / (rows * columns) * shape.depth, y0 = i / columns % rows * shape.height;
    const std::size_t x0 = i % columns * shape.width, elements = shape.bytes() / 2;
    Bytes& chunk = chunks[i];
    chunk.resize(shape.bytes());
    std::size_t k = 0;
    for (std::size_t z = z0; z < z0 + shape.depth; ++z)
      for (std::size_t y = y0; y < y0 + shape.height; ++y)
        for (std::size_t x = x0; x < x0 + shape.width; ++x, ++k) {
          const std::uint16_t value = volume.at(z, y, x);
          chunk[shuffle ? k : 2 * k] = static_cast<std::byte>(value & 255);
          chunk[shuffle ? elements + k : 2 * k + 1] = static_cast<std::byte>(value >> 8);
        }
  });
  return chunks;
}

}  // namespace damacy::bench
