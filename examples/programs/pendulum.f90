! The step of pendulum.ck as a command, by pipe:  gfortran -O2 -o pendulum pendulum.f90
program pendulum
  implicit none
  double precision, allocatable :: x(:, :), y(:, :), g(:, :), k(:), speed(:)
  character(4096) :: line
  integer :: input, output, n, state
  open (newunit=input, file='/dev/stdin', access='stream', form='unformatted', action='read')
  open (newunit=output, file='/dev/stdout', access='stream', form='unformatted', action='write')
  do while (next_line())
    if (line(1:5) == 'open ') then
      read (line(index(line, 'x=f64[2,') + 8:index(line, '] k=') - 1), *) n
      deallocate (x, y, g, k, speed, stat=state)             ! the types may change
      allocate (x(n, 2), y(n, 2), g(n, 2), k(n), speed(n))   ! C's rows are Fortran's columns
      write (output) 'ready 1 backward'//new_line('a')
    else if (line == 'set k') then
      read (input) k
    else if (line(1:8) == 'forward ') then
      read (input) x
      y(:, 2) = 0.99d0*x(:, 2) - 0.01d0*k*sin(x(:, 1))
      y(:, 1) = x(:, 1) + 0.01d0*y(:, 2)
      write (output) 'ok'//new_line('a'), y
    else if (line(1:9) == 'backward ') then
      read (input) x, g
      speed = g(:, 2) + 0.01d0*g(:, 1)                       ! the cotangent of the new speed
      write (output) 'ok'//new_line('a'), g(:, 1) - 0.01d0*k*cos(x(:, 1))*speed, 0.99d0*speed, -0.01d0*sin(x(:, 1))*speed
    end if
    flush (output)
  end do
contains
  logical function next_line()
    integer :: length, status
    line = ''
    do length = 1, len(line)
      read (input, iostat=status) line(length:length)
      next_line = status == 0
      if (.not. next_line .or. line(length:length) == new_line('a')) exit
    end do
    if (next_line) line(length:) = ''
  end function
end program
