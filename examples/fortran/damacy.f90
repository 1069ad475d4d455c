! What a Fortran program needs of damacy/c.h to exchange halos. Functions return 0, or the number of an error:
! damacy_check() prints its text.
module damacy
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  type, bind(c) :: callbacks
    integer(c_size_t) :: struct_size
    type(c_ptr) :: context
    type(c_funptr) :: send, receive, wait, test, cancel
  end type
  interface
    integer(c_int) function damacy_halo_field_create(rank, dims, dtype, shape, strides, origin, extent, out) bind(c)
      import
      integer(c_int), value :: rank, dtype
      type(c_ptr), value :: strides
      type(c_ptr) :: dims(*), out
      integer(c_int64_t) :: shape(*), origin(*), extent(*)
    end function
    integer(c_int) function damacy_halo_plan_create(out) bind(c)
      import
      type(c_ptr) :: out
    end function
    integer(c_int) function damacy_halo_plan_add_field(plan, field) bind(c)
      import
      type(c_ptr), value :: plan, field
    end function
    integer(c_int) function damacy_halo_plan_compile_cubed_sphere(plan, layout, rank, width) bind(c)
      import
      type(c_ptr), value :: plan
      integer(c_int64_t), value :: layout, rank, width
    end function
    integer(c_int) function damacy_halo_local_create(ranks, timeout_s, out) bind(c)
      import
      integer(c_int), value :: ranks
      real(c_double), value :: timeout_s
      type(c_ptr) :: out
    end function
    integer(c_int) function damacy_halo_callbacks_create(given, timeout_s, out) bind(c)
      import
      type(callbacks) :: given
      real(c_double), value :: timeout_s
      type(c_ptr) :: out
    end function
    integer(c_int) function damacy_halo_exchanger_create(plan, transport, out) bind(c)
      import
      type(c_ptr), value :: plan, transport
      type(c_ptr) :: out
    end function
    integer(c_int) function damacy_halo_start(exchanger, count, arrays, out) bind(c)
      import
      type(c_ptr), value :: exchanger
      integer(c_int), value :: count
      type(c_ptr) :: arrays(*), out
    end function
    integer(c_int) function damacy_halo_finish(exchanger, token) bind(c)
      import
      type(c_ptr), value :: exchanger, token
    end function
    subroutine damacy_halo_field_destroy(field) bind(c)
      import
      type(c_ptr), value :: field
    end subroutine
    subroutine damacy_halo_plan_destroy(plan) bind(c)
      import
      type(c_ptr), value :: plan
    end subroutine
    subroutine damacy_halo_exchanger_destroy(exchanger) bind(c)
      import
      type(c_ptr), value :: exchanger
    end subroutine
    subroutine damacy_halo_transport_destroy(transport) bind(c)
      import
      type(c_ptr), value :: transport
    end subroutine
    function damacy_error_text() bind(c) result(text)
      import
      type(c_ptr) :: text
    end function
  end interface
contains
  subroutine damacy_check(status)  ! ends the program with damacy's text if a function has failed
    integer(c_int), intent(in) :: status
    character(kind=c_char), pointer :: text(:)
    integer :: n
    if (status == 0) return
    call c_f_pointer(damacy_error_text(), text, [1000])
    n = 1
    do while (text(n) /= c_null_char .and. n < 1000)
      n = n + 1
    end do
    write (error_unit, '(1000a)') text(1:n - 1)
    error stop 1
  end subroutine
end module
