! Halo exchange from Fortran by the C interface: packs and unpacks a message, then exchanges the halos of two periodic
! blocks within this process. Fortran's first index runs fastest, so the field is (j, i) with explicit strides.
module damacy
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    function damacy_error_text() bind(c) result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    integer(c_int) function damacy_halo_field_create(rank, dims, dtype, shape, strides, origin, extent, out) bind(c)
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: rank, dtype
      type(c_ptr), intent(in) :: dims(*)
      integer(c_int64_t), intent(in) :: shape(*), strides(*), origin(*), extent(*)
      type(c_ptr), intent(inout) :: out
    end function
    subroutine damacy_halo_field_destroy(field) bind(c)
      import :: c_ptr
      type(c_ptr), value :: field
    end subroutine
    integer(c_int) function damacy_halo_field_box(field, side, width, interior, start, stop) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: field
      integer(c_int), value :: side, interior
      integer(c_int64_t), value :: width
      integer(c_int64_t), intent(inout) :: start(*), stop(*)
    end function
    integer(c_int) function damacy_halo_specs_create(out) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: out
    end function
    subroutine damacy_halo_specs_destroy(specs) bind(c)
      import :: c_ptr
      type(c_ptr), value :: specs
    end subroutine
    integer(c_int) function damacy_halo_specs_add(specs, field, pack_start, pack_stop, rotation, unpack_start, &
                                                  unpack_stop) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: specs, field
      integer(c_int), value :: rotation
      integer(c_int64_t), intent(in) :: pack_start(*), pack_stop(*), unpack_start(*), unpack_stop(*)
    end function
    integer(c_int) function damacy_halo_transformer_create(x, y, wire, threads, out) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: x, y
      integer(c_int), value :: wire, threads
      type(c_ptr), intent(inout) :: out
    end function
    subroutine damacy_halo_transformer_destroy(transformer) bind(c)
      import :: c_ptr
      type(c_ptr), value :: transformer
    end subroutine
    integer(c_int) function damacy_halo_pack(transformer, count, x, y) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: transformer, y
      integer(c_int), value :: count
      type(c_ptr), intent(in) :: x(*)
    end function
    integer(c_int) function damacy_halo_unpack(transformer, count, x, y) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: transformer, y
      integer(c_int), value :: count
      type(c_ptr), intent(in) :: x(*)
    end function
    integer(c_int) function damacy_halo_pack_buffer(transformer, data, size) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: transformer
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: size
    end function
    integer(c_int) function damacy_halo_unpack_buffer(transformer, data, size) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: transformer
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: size
    end function
    integer(c_int) function damacy_halo_plan_create(out) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: out
    end function
    subroutine damacy_halo_plan_destroy(plan) bind(c)
      import :: c_ptr
      type(c_ptr), value :: plan
    end subroutine
    integer(c_int) function damacy_halo_plan_add_field(plan, field) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan, field
    end function
    integer(c_int) function damacy_halo_plan_add_axis(plan, dim, blocks, cells, periodic, before, after) bind(c)
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      character(kind=c_char), intent(in) :: dim(*)
      integer(c_int), value :: blocks, periodic
      integer(c_int64_t), intent(in) :: cells(*)
      integer(c_int64_t), value :: before, after
    end function
    integer(c_int) function damacy_halo_plan_compile_grid(plan, corners, rank) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      integer(c_int), value :: corners
      integer(c_int64_t), value :: rank
    end function
    integer(c_int) function damacy_halo_local_create(ranks, timeout_s, out) bind(c)
      import :: c_double, c_int, c_ptr
      integer(c_int), value :: ranks
      real(c_double), value :: timeout_s
      type(c_ptr), intent(inout) :: out
    end function
    subroutine damacy_halo_transport_destroy(transport) bind(c)
      import :: c_ptr
      type(c_ptr), value :: transport
    end subroutine
    integer(c_int) function damacy_halo_exchanger_create(plan, transport, out) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan, transport
      type(c_ptr), intent(inout) :: out
    end function
    subroutine damacy_halo_exchanger_destroy(exchanger) bind(c)
      import :: c_ptr
      type(c_ptr), value :: exchanger
    end subroutine
    integer(c_int) function damacy_halo_start(exchanger, count, arrays, out) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: exchanger
      integer(c_int), value :: count
      type(c_ptr), intent(in) :: arrays(*)
      type(c_ptr), intent(inout) :: out
    end function
    integer(c_int) function damacy_halo_finish(exchanger, token) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: exchanger, token
    end function
  end interface
end module damacy

program halo_in_fortran
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use damacy
  implicit none
  integer, parameter :: columns = 4, rows = 3
  integer(c_int), parameter :: f64 = 3, east = 1, west = 0, ndsl = 0, direct = 0
  integer(c_int64_t), parameter :: one = 1
  real(c_double), target :: blocks(0:columns + 1, 0:rows + 1, 0:1)
  character(kind=c_char), target :: j_name(2) = ['j', c_null_char], i_name(2) = ['i', c_null_char]
  type(c_ptr) :: field

  field = make_field()
  call test_packing()
  call test_exchange()
  call damacy_halo_field_destroy(field)
  print '(a)', 'halo exchange from Fortran works'

contains

  subroutine ok(status, what)
    integer(c_int), intent(in) :: status
    character(*), intent(in) :: what
    character(kind=c_char), pointer :: text(:)
    integer :: n
    if (status == 0) return
    call c_f_pointer(damacy_error_text(), text, [1000])
    do n = 1, 1000
      if (text(n) == c_null_char) exit
    end do
    write (error_unit, *) what, ': ', text(1:n - 1)
    stop 1
  end subroutine

  subroutine check(is_true, what)
    logical, intent(in) :: is_true
    character(*), intent(in) :: what
    if (is_true) return
    write (error_unit, *) what, ': wrong values'
    stop 1
  end subroutine

  function make_field() result(made)
    type(c_ptr) :: made, dims(2)
    integer(c_int64_t) :: shape(2), strides(2), origin(2), extent(2)
    dims = [c_loc(j_name), c_loc(i_name)]
    shape = [rows + 2, columns + 2]
    strides = [8*(columns + 2), 8]
    origin = 1
    extent = [rows, columns]
    made = c_null_ptr
    call ok(damacy_halo_field_create(2_c_int, dims, f64, shape, strides, origin, extent, made), 'field')
  end function

  subroutine fill()
    integer :: rank, i, j
    blocks = -1
    do rank = 0, 1
      do j = 1, rows
        do i = 1, columns
          blocks(i, j, rank) = 1000*rank + 10*j + i
        end do
      end do
    end do
  end subroutine

  ! The cells of the east side go to the west halo.
  subroutine test_packing()
    type(c_ptr) :: specs, transformer, arrays(1), packed, unpacked
    integer(c_int64_t) :: from(2), from_stop(2), to(2), to_stop(2)
    integer(c_size_t) :: bytes
    real(c_double), pointer :: message(:), received(:)
    specs = c_null_ptr
    transformer = c_null_ptr
    packed = c_null_ptr
    unpacked = c_null_ptr
    bytes = 0
    call fill()
    call ok(damacy_halo_field_box(field, east, one, 1_c_int, from, from_stop), 'box to send')
    call ok(damacy_halo_field_box(field, west, one, 0_c_int, to, to_stop), 'box to receive')
    call ok(damacy_halo_specs_create(specs), 'specs')
    call ok(damacy_halo_specs_add(specs, field, from, from_stop, 0_c_int, to, to_stop), 'spec')
    call ok(damacy_halo_transformer_create(specs, c_null_ptr, ndsl, 1_c_int, transformer), 'transformer')
    arrays(1) = c_loc(blocks(0, 0, 0))
    call ok(damacy_halo_pack(transformer, 1_c_int, arrays, c_null_ptr), 'pack')
    call ok(damacy_halo_pack_buffer(transformer, packed, bytes), 'pack buffer')
    call check(bytes == 8*rows, 'size of the message')
    call c_f_pointer(packed, message, [rows])
    call check(all(message == blocks(columns, 1:rows, 0)), 'message')
    call ok(damacy_halo_unpack_buffer(transformer, unpacked, bytes), 'unpack buffer')
    call c_f_pointer(unpacked, received, [rows])
    received = message + 0.5
    call ok(damacy_halo_unpack(transformer, 1_c_int, arrays, c_null_ptr), 'unpack')
    call check(all(blocks(0, 1:rows, 0) == blocks(columns, 1:rows, 0) + 0.5), 'unpacked halo')
    call check(all(blocks(columns + 1, :, 0) < 0), 'the other halo')
    call damacy_halo_transformer_destroy(transformer)
    call damacy_halo_specs_destroy(specs)
  end subroutine

  ! Two blocks along i, periodic in both directions.
  subroutine test_exchange()
    type(c_ptr) :: transport, plan, exchangers(0:1), tokens(0:1), arrays(1)
    integer(c_int64_t) :: block_rows(1), block_columns(2)
    integer :: rank, i, j, column, row
    block_rows = rows
    block_columns = columns
    transport = c_null_ptr
    exchangers = c_null_ptr
    tokens = c_null_ptr
    call fill()
    call ok(damacy_halo_local_create(2_c_int, 30._c_double, transport), 'transport')
    do rank = 0, 1
      plan = c_null_ptr
      call ok(damacy_halo_plan_create(plan), 'plan')
      call ok(damacy_halo_plan_add_field(plan, field), 'field of the plan')
      call ok(damacy_halo_plan_add_axis(plan, j_name, 1_c_int, block_rows, 1_c_int, one, one), 'axis j')
      call ok(damacy_halo_plan_add_axis(plan, i_name, 2_c_int, block_columns, 1_c_int, one, one), 'axis i')
      call ok(damacy_halo_plan_compile_grid(plan, direct, int(rank, c_int64_t)), 'compile')
      call ok(damacy_halo_exchanger_create(plan, transport, exchangers(rank)), 'exchanger')
      call damacy_halo_plan_destroy(plan)
    end do
    do rank = 0, 1
      arrays(1) = c_loc(blocks(0, 0, rank))
      call ok(damacy_halo_start(exchangers(rank), 1_c_int, arrays, tokens(rank)), 'start')
    end do
    do rank = 0, 1
      call ok(damacy_halo_finish(exchangers(rank), tokens(rank)), 'finish')
    end do
    do rank = 0, 1
      do j = 0, rows + 1
        do i = 0, columns + 1
          column = modulo(rank*columns + i - 1, 2*columns)
          row = modulo(j - 1, rows) + 1
          call check(blocks(i, j, rank) == 1000*(column/columns) + 10*row + modulo(column, columns) + 1, 'exchanged cell')
        end do
      end do
      call damacy_halo_exchanger_destroy(exchangers(rank))
    end do
    call damacy_halo_transport_destroy(transport)
  end subroutine

end program halo_in_fortran
