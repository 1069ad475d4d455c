! Functions of damacy_halo_callbacks that send over MPI, to the ranks of MPI_COMM_WORLD. A request is passed on as twice
! the number that MPI gave it, and one more if it sends.
module mpi_messages
  use, intrinsic :: iso_c_binding
  use damacy, only: callbacks
  use mpi_f08
  implicit none
  private
  public :: mpi_callbacks
contains
  integer(c_int) function send(context, rank, peer, tag, data, size, request) bind(c, name='')
    type(c_ptr), value :: context, data
    integer(c_int64_t), value :: rank, peer
    integer(c_int), value :: tag
    integer(c_size_t), value :: size
    type(c_ptr), intent(out) :: request
    character, pointer :: bytes(:)
    type(MPI_Request) :: started
    call c_f_pointer(data, bytes, [size])
    call MPI_Isend(bytes, int(size), MPI_BYTE, int(peer), tag, MPI_COMM_WORLD, started, send)
    request = transfer(2*int(started%MPI_VAL, c_intptr_t) + 1, c_null_ptr)
  end function

  integer(c_int) function receive(context, rank, peer, tag, data, size, request) bind(c, name='')
    type(c_ptr), value :: context, data
    integer(c_int64_t), value :: rank, peer
    integer(c_int), value :: tag
    integer(c_size_t), value :: size
    type(c_ptr), intent(out) :: request
    character, pointer :: bytes(:)
    type(MPI_Request) :: started
    call c_f_pointer(data, bytes, [size])
    call MPI_Irecv(bytes, int(size), MPI_BYTE, int(peer), tag, MPI_COMM_WORLD, started, receive)
    request = transfer(2*int(started%MPI_VAL, c_intptr_t), c_null_ptr)
  end function

  type(MPI_Request) function started_as(request)
    type(c_ptr), intent(in) :: request
    started_as%MPI_VAL = int(shifta(transfer(request, 0_c_intptr_t), 1))
  end function

  integer(c_int) function wait(context, request) bind(c, name='')
    type(c_ptr), value :: context, request
    type(MPI_Request) :: started
    started = started_as(request)
    call MPI_Wait(started, MPI_STATUS_IGNORE, wait)
  end function

  integer(c_int) function test(context, request, ended) bind(c, name='')
    type(c_ptr), value :: context, request
    integer(c_int), intent(out) :: ended
    type(MPI_Request) :: started
    logical :: has_ended
    started = started_as(request)
    call MPI_Test(started, has_ended, MPI_STATUS_IGNORE, test)
    ended = merge(1, 0, has_ended)
  end function

  integer(c_int) function cancel(context, request) bind(c, name='')
    type(c_ptr), value :: context, request
    type(MPI_Request) :: started
    integer(c_int) :: ended
    cancel = test(context, request, ended)
    if (ended /= 0) return
    started = started_as(request)
    if (btest(transfer(request, 0_c_intptr_t), 0)) then
      call MPI_Request_free(started)
      cancel = 1  ! MPI may still read what is sent
    else
      call MPI_Cancel(started)
      call MPI_Wait(started, MPI_STATUS_IGNORE)
    end if
  end function

  function mpi_callbacks() result(functions)
    type(callbacks) :: functions
    functions = callbacks(c_sizeof(functions), c_null_ptr, c_funloc(send), c_funloc(receive), c_funloc(wait), &
                          c_funloc(test), c_funloc(cancel))
  end function
end module
