! Advection of a tracer around a cubed sphere: each tile is a rank of MPI, and every step exchanges the tracer's halo by
! damacy's C interface. One process that has all tiles gives the same bits.
program cubed_sphere
  use damacy
  use mpi_messages
  use mpi_f08
  implicit none
  integer, parameter :: tiles = 6, n = 24, steps = 100
  real(c_double), parameter :: angle = acos(0._c_double)/n, time_step = 0.2_c_double/angle, half = 0.5_c_double
  real(c_double), parameter :: x_axis(3) = [1, 0, 0], pole(3) = [0.3_c_double, 0.4_c_double, 0.866_c_double]
  integer(c_int), parameter :: float64 = 3
  integer, parameter :: directions(3, 0:tiles - 1) = reshape( &  ! normal, i, j of each tile: 1 is +x, -1 is -x, 2 is +y
                        [1, 2, 3, 2, -1, 3, 3, -1, -2, -1, -3, -2, -2, -3, 1, -3, 2, 1], [3, tiles])
  real(c_double) :: mine(n, n), all_tiles(n, n, tiles), first(n, n, tiles), alone(n, n, tiles)
  type(c_ptr) :: transport
  integer :: rank, ranks

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  if (ranks /= tiles) error stop 'expected 6 ranks'
  call damacy_check(damacy_halo_callbacks_create(mpi_callbacks(), 60._c_double, transport))
  call advect(transport, rank, rank, steps, mine)
  call damacy_halo_transport_destroy(transport)
  call MPI_Gather(mine, n*n, MPI_DOUBLE_PRECISION, all_tiles, n*n, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (rank /= 0) stop
  call damacy_check(damacy_halo_local_create(tiles, 60._c_double, transport))
  call advect(transport, 0, tiles - 1, 0, first)
  call advect(transport, 0, tiles - 1, steps, alone)
  call damacy_halo_transport_destroy(transport)
  print '(2(a, f0.9))', 'ranks are processes of MPI: sum ', sum(first), ' -> ', sum(all_tiles)
  if (abs(sum(all_tiles) - sum(first)) > 1e-9*sum(first)) error stop 'the sum has changed'
  if (any(all_tiles /= alone)) error stop 'NOT equal to one process'
  print '(a)', 'equal to one process'

contains

  ! How far along an axis the point of the unit sphere is that is `i` and `j` cells from the start of a tile.
  pure real(c_double) function along(axis, tile, i, j)
    real(c_double), intent(in) :: axis(3), i, j
    integer, intent(in) :: tile
    real(c_double) :: cube(3)
    cube = [1._c_double, tan((i - n/2)*angle), tan((j - n/2)*angle)]
    along = sum(axis(abs(directions(:, tile)))*sign(1, directions(:, tile))*cube)/norm2(cube)
  end function

  ! What flows over a face, from the cell that is upwind.
  elemental real(c_double) function flow(from, to, volume)
    real(c_double), intent(in) :: from, to, volume
    flow = volume*merge(from, to, volume > 0)
  end function

  function exchanger_of(tile, transport) result(exchanger)
    integer, intent(in) :: tile
    type(c_ptr), intent(in) :: transport
    type(c_ptr) :: field, plan, exchanger
    character(kind=c_char), target :: names(2, 2) = reshape(['j', c_null_char, 'i', c_null_char], [2, 2])
    integer(c_int64_t), parameter :: one = 1, cells(2) = n
    ! An array (i, j) of Fortran is one of (j, i) in C order.
    call damacy_check(damacy_halo_field_create(2, [c_loc(names(1, 1)), c_loc(names(1, 2))], float64, cells + 2, &
                                               c_null_ptr, [one, one], cells, field))
    call damacy_check(damacy_halo_plan_create(plan))
    call damacy_check(damacy_halo_plan_add_field(plan, field))
    call damacy_check(damacy_halo_plan_compile_cubed_sphere(plan, one, int(tile, c_int64_t), one))
    call damacy_check(damacy_halo_exchanger_create(plan, transport, exchanger))
    call damacy_halo_plan_destroy(plan)
    call damacy_halo_field_destroy(field)
  end function

  ! Gives the tracers of some tiles after so many steps: starts all their exchanges, then finishes them.
  subroutine advect(transport, first, last, steps, tracers)
    type(c_ptr), intent(in) :: transport
    integer, intent(in) :: first, last, steps
    real(c_double), intent(out) :: tracers(n, n, first:last)
    real(c_double), target :: q(0:n + 1, 0:n + 1, first:last)
    real(c_double) :: stream(0:n, 0:n, first:last)  ! at corners: what flows over a face is the difference of its ends
    type(c_ptr) :: exchangers(first:last), tokens(first:last)
    integer :: tile, i, j, step
    do tile = first, last
      exchangers(tile) = exchanger_of(tile, transport)
      do concurrent(j=1:n, i=1:n)
        q(i, j, tile) = exp((along(x_axis, tile, i - half, j - half) - 1)/0.05_c_double)
      end do
      do concurrent(j=0:n, i=0:n)
        stream(i, j, tile) = along(pole, tile, real(i, c_double), real(j, c_double))
      end do
    end do
    do step = 1, steps
      do tile = first, last
        call damacy_check(damacy_halo_start(exchangers(tile), 1, [c_loc(q(0, 0, tile))], tokens(tile)))
      end do
      do tile = first, last
        call damacy_check(damacy_halo_finish(exchangers(tile), tokens(tile)))
        call move(q(:, :, tile), stream(:, :, tile))
      end do
    end do
    do tile = first, last
      call damacy_halo_exchanger_destroy(exchangers(tile))
    end do
    tracers = q(1:n, 1:n, :)
  end subroutine

  ! One step of a tile whose halo is valid.
  subroutine move(q, stream)
    real(c_double), intent(inout) :: q(0:n + 1, 0:n + 1)
    real(c_double), intent(in) :: stream(0:n, 0:n)
    real(c_double) :: x(0:n, n), y(n, 0:n)
    x = flow(q(0:n, 1:n), q(1:n + 1, 1:n), stream(:, 1:n) - stream(:, 0:n - 1))
    y = flow(q(1:n, 0:n), q(1:n, 1:n + 1), stream(0:n - 1, :) - stream(1:n, :))
    q(1:n, 1:n) = q(1:n, 1:n) - time_step*(x(1:n, :) - x(0:n - 1, :) + y(:, 1:n) - y(:, 0:n - 1))
  end subroutine
end program
