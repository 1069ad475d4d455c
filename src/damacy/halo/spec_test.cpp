// Boxes of sides and the checks of specs. Python's tests compare the boxes with the table of the specification.
#include "damacy/halo/spec.h"

#include <gtest/gtest.h>

#include "support/error_of.h"

namespace damacy::halo {
namespace {

QuantityHaloSpec staggered() {
  QuantityHaloSpec q{{"j_interface", "i"}, {11, 10}, {80, 8}, {3, 3}, {5, 4}, Dtype::f64};
  return q;
}

TEST(Spec, sides_leave_out_the_row_that_both_ranks_hold) {
  EXPECT_EQ(boundary_slice(staggered(), Side::south, 2, true), (Box{{4, 3}, {6, 7}}));
  EXPECT_EQ(boundary_slice(staggered(), Side::south, 2, false), (Box{{1, 3}, {3, 7}}));
  EXPECT_EQ(boundary_slice(staggered(), Side::northeast, 2, true), (Box{{5, 5}, {7, 7}}));
  EXPECT_EQ(boundary_slice(staggered(), Side::northeast, 3, false), (Box{{8, 7}, {11, 10}}));
}

TEST(Spec, cells_that_are_not_allocated_have_their_own_reason) {
  const Error error = error_of([] { (void)boundary_slice(staggered(), Side::west, 4, false); });
  EXPECT_EQ(error.message(), "Boundary slice extends past start of domain on dimension i: -1:3 of 10 elements");
  EXPECT_EQ(error.where().reason, kOutsideAllocation);
  EXPECT_EQ(error_of([] { (void)boundary_slice(staggered(), Side::north, 4, false); }).where().reason,
            kOutsideAllocation);
}

TEST(Spec, huge_halos_are_refused) {
  EXPECT_THROW((void)boundary_slice(staggered(), Side::west, std::int64_t{1} << 62, false), Error);
  EXPECT_THROW((void)dense_field({"i"}, {4}, std::int64_t{1} << 62), Error);
  EXPECT_THROW((void)dense_field({"i", "j"}, {std::int64_t{1} << 40, std::int64_t{1} << 40}, 0), Error);
}

TEST(Spec, a_dense_field_has_its_halo_along_horizontal_dimensions) {
  const auto q = dense_field({"k", "j", "i"}, {5, 4, 3}, 2, Dtype::f32);
  EXPECT_EQ(q.shape, (Dims{5, 8, 7}));
  EXPECT_EQ(q.strides, (Dims{224, 28, 4}));
  EXPECT_EQ(q.origin, (Dims{0, 2, 2}));
  EXPECT_EQ(compute_domain(q), (Box{{0, 2, 2}, {5, 6, 5}}));
}

TEST(Spec, slices_count_from_the_end_as_in_python) {
  const std::vector<std::string> dims{"j", "i"};
  const std::vector<Slice> slices{{-3, -1}, {1, {}}};
  EXPECT_EQ(resolve_box(slices, {4, 5}, dims, "box"), (Box{{1, 1}, {3, 5}}));
  const std::vector<Slice> outside{{{}, {}}, {-6, {}}};
  const Error error = error_of([&] { (void)resolve_box(outside, {4, 5}, dims, "unpack box"); });
  EXPECT_EQ(error.message(), "unpack box, dimension i: slice(-6, None, None) extends beyond the 5 allocated cells");
  EXPECT_EQ(error.where().reason, kOutsideAllocation);
  const std::vector<Slice> backwards{{3, 1}, {}};
  EXPECT_EQ(error_of([&] { (void)resolve_box(backwards, {4, 5}, dims, "box"); }).message(),
            "box, dimension j: slice(3, 1, None) starts after its stop");
}

TEST(Spec, boxes_and_rotations_that_cannot_be_exchanged_are_refused) {
  const auto q = dense_field({"j", "i"}, {4, 5}, 0);
  const Box all{{0, 0}, {4, 5}};
  EXPECT_NO_THROW(check(HaloExchangeSpec{q, all, 1, all}));
  EXPECT_EQ(error_of([&] { check(HaloExchangeSpec{q, {{0, 0}, {5, 5}}, 0, all}); }).where().reason, kOutsideAllocation);
  EXPECT_EQ(error_of([&] { check(HaloExchangeSpec{q, {{-2, 0}, {-1, 5}}, 0, all}); }).where().reason,
            kOutsideAllocation);
  auto repeated = q;
  repeated.strides = {0, 8};
  EXPECT_THROW(check(HaloExchangeSpec{repeated, all, 0, all}), Error);
  auto twice = q;
  twice.dims = {"i", "i_interface"};
  EXPECT_NO_THROW(check(HaloExchangeSpec{twice, all, 4, all}));
  EXPECT_THROW(check(HaloExchangeSpec{twice, all, 1, all}), Error);
  auto without_origin = q;
  without_origin.origin = {0};
  EXPECT_THROW(check(without_origin), Error);
}

TEST(Spec, unsigned_numbers_have_no_negation) {
  EXPECT_EQ(error_of([] { check_negatable(Dtype::u16); }).status(), Status::dtype);
  EXPECT_NO_THROW(check_negatable(Dtype::i16));
}

TEST(Spec, a_compute_domain_is_the_rest_of_the_allocation_by_default) {
  const std::vector<std::string> dims{"k", "i"};
  const Domain all = domain_of(dims, {5, 8}, {}, {});
  EXPECT_EQ(all.origin, (Dims{0, 0}));
  EXPECT_EQ(all.extent, (Dims{5, 8}));
  EXPECT_EQ(domain_of(dims, {5, 8}, Dims{1, 2}, {}).extent, (Dims{4, 6}));
  EXPECT_EQ(error_of([&] { (void)domain_of(dims, {5, 8}, Dims{0, 9}, {}); }).message(),
            "dimension i: origin 9, extent 0 in 8 cells");
  EXPECT_EQ(error_of([&] { (void)domain_of(dims, {5}, {}, {}); }).message(),
            "an array of 1 dimensions with 2 dims, 1 origins and 1 extents");
}

TEST(Spec, horizontal_sides_need_their_halo) {
  const std::vector<std::string> dims{"k", "i"};
  EXPECT_NO_THROW(check_halo(dims, {5, 8}, {{0, 2}, {5, 4}}, 2));
  EXPECT_EQ(error_of([&] { check_halo(dims, {5, 8}, {{0, 2}, {5, 5}}, 2); }).message(),
            "dimension i: 2 and 1 cells beyond the compute domain, 2 are needed");
}

}  // namespace
}  // namespace damacy::halo
