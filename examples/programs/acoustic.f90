! A time step of the 2-D acoustic wave equation and its adjoint by hand, as a command with shared memory:
!
!     gfortran -O3 -o acoustic acoustic.f90
!     ckptc grad --program step=./acoustic --grads gradient.npz acoustic.ck <state.npy
!
! The state x is [u, p, m]: the field, the field before, and the misfit so far. The operands are c, which is
! (velocity * dt / dx)^2 in each cell, and d, what the receivers recorded at this step. The step computes
!
!     q = damp * (2 u - p + c * laplacian(u)) + source        five points, zero outside the grid
!     y = [q, damp * u, m + sum((q at the receivers - d)^2) / 2]
!
! damp falls below 1 towards the borders, which so absorb the wave (Cerjan et al. 1985). The columns of these arrays are
! the rows of ckptc's.
module acoustic
  use iso_c_binding
  implicit none
  integer :: n = 0                               ! cells along each axis
  real(8), allocatable :: damp(:, :)
  real(8), allocatable :: w(:, :)                ! a field with a border of zeros
  integer, parameter :: depth = 8                ! the receivers are a column, so far from the last one
contains
  subroutine prepare(size) bind(c, name='acoustic_prepare')
    integer(c_int), value :: size
    integer :: i, j, edge, width
    n = size
    width = max(n/12, 2)
    if (allocated(damp)) deallocate (damp, w)
    allocate (damp(n, n), w(0:n + 1, 0:n + 1))
    w = 0
    do j = 1, n
      do i = 1, n
        edge = min(i, n + 1 - i, j, n + 1 - j, width + 1)
        damp(i, j) = exp(-(0.3d0*(width + 1 - edge)/width)**2)
      end do
    end do
  end subroutine

  ! A Ricker wavelet. STEP counts from 0.
  real(8) function source(step)
    integer(c_int64_t), intent(in) :: step
    real(8) :: a
    a = (acos(-1d0)*(step - 30)/20)**2
    source = (1 - 2*a)*exp(-a)
  end function

  subroutine forward(step, u, p, m, c, d, q, r, e) bind(c, name='acoustic_forward')
    integer(c_int64_t), intent(in) :: step
    real(c_double), intent(in) :: u(n, n), p(n, n), m, c(n, n), d(n)
    real(c_double), intent(out) :: q(n, n), r(n, n), e
    integer :: j
    w(1:n, 1:n) = u
    do j = 1, n
      call advance(u, p, c, j, q(:, j))
      r(:, j) = damp(:, j)*u(:, j)
    end do
    q(n/2, n/2) = q(n/2, n/2) + source(step)
    e = m + sum((q(:, n - depth) - d)**2)/2
  end subroutine

  ! Computes column J of the next field without its source. W must hold U.
  subroutine advance(u, p, c, j, q)
    real(c_double), intent(in) :: u(n, n), p(n, n), c(n, n)
    integer, intent(in) :: j
    real(c_double), intent(out) :: q(n)
    integer :: i
    do i = 1, n
      q(i) = damp(i, j)*(2*u(i, j) - p(i, j) + c(i, j)*(w(i - 1, j) + w(i + 1, j) + w(i, j - 1) + w(i, j + 1) - 4*w(i, j)))
    end do
  end subroutine

  ! Takes gq, gr, ge, the cotangents of q, r, e, to gu, gp, gm, gc, those of u, p, m, c. It does not need m.
  subroutine backward(u, p, c, d, gq, gr, ge, gu, gp, gm, gc) bind(c, name='acoustic_backward')
    real(c_double), intent(in) :: u(n, n), p(n, n), c(n, n), d(n), gq(n, n), gr(n, n), ge
    real(c_double), intent(out) :: gu(n, n), gp(n, n), gm, gc(n, n)
    real(8) :: q(n)
    integer :: i, j
    gm = ge
    w(1:n, 1:n) = u
    call advance(u, p, c, n - depth, q)          ! the receivers' cells, which lie beside the source
    gp = damp*gq                                 ! the cotangent of 2 u - p + c * laplacian(u)
    gp(:, n - depth) = gp(:, n - depth) + damp(:, n - depth)*ge*(q - d)
    do j = 1, n
      do i = 1, n
        gc(i, j) = gp(i, j)*(w(i - 1, j) + w(i + 1, j) + w(i, j - 1) + w(i, j + 1) - 4*w(i, j))
      end do
    end do
    w(1:n, 1:n) = c*gp                           ! the laplacian is its own transpose
    do j = 1, n
      do i = 1, n
        gu(i, j) = 2*gp(i, j) + damp(i, j)*gr(i, j) + w(i - 1, j) + w(i + 1, j) + w(i, j - 1) + w(i, j + 1) - 4*w(i, j)
        gp(i, j) = -gp(i, j)
      end do
    end do
  end subroutine
end module

! The messages of ckptc-program(7).
program main
  use acoustic
  implicit none
  interface
    type(c_ptr) function mmap(address, length, protection, flags, descriptor, offset) bind(c)
      import :: c_ptr, c_size_t, c_int, c_long
      type(c_ptr), value :: address
      integer(c_size_t), value :: length
      integer(c_int), value :: protection, flags, descriptor
      integer(c_long), value :: offset
    end function
  end interface
  real(8), pointer, contiguous :: all(:) => null() ! the shared memory
  character(4096) :: line
  character(16) :: word
  real(8), allocatable, target :: spare(:)       ! for cotangents that are not wanted
  real(8), pointer, contiguous :: x(:), y(:), c(:), d(:), g(:), dx(:), dc(:)
  integer(c_int64_t) :: bytes, step, k = 0
  integer :: status, size
  do
    read (*, '(A)', iostat=status) line
    if (status /= 0) exit
    read (line, *) word
    select case (word)
    case ('open')
      read (line(index(line, ' c=f64[') + 7:), *, iostat=status) size
      if (status /= 0) then
        write (*, '(A)') 'error its operand c is not f64'
      else
        call prepare(size)
        k = int(size, 8)**2                      ! in x and y: 1 is u, 1 + k is p, 1 + 2 k is m
        if (allocated(spare)) deallocate (spare)
        allocate (spare(2*k + 1))
        write (*, '(A)') 'ready 1 backward memory'
      end if
    case ('memory')                              ! no answer
      read (line(8:), *) bytes
      call c_f_pointer(mmap(c_null_ptr, int(bytes, c_size_t), 3, 1, 3, 0_c_long), all, [bytes/8])
      cycle
    case ('forward')
      read (line(9:), *) step
      x => array('x'); c => array('c'); d => array('d'); y => array('y')
      call forward(step, x, x(1 + k:), x(1 + 2*k), c, d, y, y(1 + k:), y(1 + 2*k))
      write (*, '(A)') 'ok'
    case ('backward')
      x => array('x'); c => array('c'); d => array('d'); g => array('g'); dx => array('dx'); dc => array('dc')
      call backward(x, x(1 + k:), c, d, g, g(1 + k:), g(1 + 2*k), dx, dx(1 + k:), dx(1 + 2*k), dc)
      write (*, '(A)') 'ok'
    case default
      write (*, '(A)') 'error unknown message'
    end select
    flush (6)
  end do
contains
  function array(name)                           ! where the call says that it lies
    character(*), intent(in) :: name
    real(8), pointer, contiguous :: array(:)
    integer(c_int64_t) :: offset
    integer :: i
    array => spare
    i = index(line, ' '//name//'=')
    if (i == 0) return
    read (line(i + len(name) + 2:), *) offset
    array => all(1 + offset/8:)
  end function
end program
