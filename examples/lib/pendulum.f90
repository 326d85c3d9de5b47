! The pendulum of pendulum.c in Fortran: a stepper and its adjoint, under ckptc's schedule.
!
!     gfortran pendulum.f90 $(pkg-config --libs ckptc) && ./a.out
module ckptc
  use iso_c_binding
  implicit none

  type, bind(c) :: ckptc_step
     integer(c_int64_t) :: count = 1
     real(c_double) :: forward = 0, backward = 0
     integer(c_int64_t) :: state_bytes = 0, residual_bytes = 0
     integer(c_int64_t) :: forward_temporary_bytes = 0, record_temporary_bytes = 0, backward_temporary_bytes = 0
     integer(c_int) :: drops_input = 0, keeps_output = 0
  end type
  type, bind(c) :: ckptc_costs
     type(c_ptr) :: steps
     integer(c_size_t) :: step_count
     integer(c_int64_t) :: fixed_bytes = 0, output_bytes = -1
     real(c_double) :: spill_write = -1, spill_read = -1
  end type
  type, bind(c) :: ckptc_callbacks
     type(c_funptr) :: forward = c_null_funptr, record = c_null_funptr, backward = c_null_funptr
     type(c_funptr) :: save = c_null_funptr, load = c_null_funptr, drop = c_null_funptr
     type(c_funptr) :: spill = c_null_funptr, fetch = c_null_funptr, discard = c_null_funptr
  end type
  type, bind(c) :: ckptc_error
     integer(c_int) :: status
     character(kind=c_char) :: message(1020)
  end type

  interface
     integer(c_int) function ckptc_plan_costs(plan, costs, policy, options, error) bind(c)
       import
       type(c_ptr), intent(out) :: plan
       type(ckptc_costs), intent(in) :: costs
       character(kind=c_char), intent(in) :: policy(*)
       type(c_ptr), value :: options
       type(ckptc_error), intent(out) :: error
     end function
     integer(c_int) function ckptc_execute(plan, callbacks, context, error) bind(c)
       import
       type(c_ptr), value :: plan, context
       type(ckptc_callbacks), intent(in) :: callbacks
       type(ckptc_error), intent(out) :: error
     end function
     subroutine ckptc_plan_free(plan) bind(c)
       import
       type(c_ptr), value :: plan
     end subroutine
  end interface
end module

module pendulum
  use iso_c_binding
  implicit none
  integer, parameter :: steps = 10000
  real(c_double), parameter :: dt = 0.001d0
  real(c_double) :: angle = 1, speed = 0, by_angle = 1, by_speed = 0, recorded(0:steps - 1), slots(2, 0:19)
  integer :: evaluations = 0
contains
  integer(c_int) function forward(context, step) bind(c)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: step
    speed = speed - dt * sin(angle)
    angle = angle + dt * speed
    evaluations = evaluations + 1
    forward = 0
  end function
  integer(c_int) function record(context, step) bind(c)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: step
    recorded(step) = angle
    record = forward(context, step)
  end function
  integer(c_int) function backward(context, step) bind(c)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: step
    by_speed = by_speed + dt * by_angle
    by_angle = by_angle - dt * cos(recorded(step)) * by_speed
    backward = 0
  end function
  integer(c_int) function save_state(context, state, slot) bind(c)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: state, slot
    slots(:, slot) = [angle, speed]
    save_state = 0
  end function
  integer(c_int) function load_state(context, state, slot) bind(c)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: state, slot
    angle = slots(1, slot)
    speed = slots(2, slot)
    load_state = 0
  end function
end module

program main
  use ckptc
  use pendulum
  implicit none
  type(ckptc_step), target :: step
  type(ckptc_costs) :: costs
  type(ckptc_callbacks) :: calls
  type(ckptc_error) :: error
  type(c_ptr) :: plan
  step%count = steps
  step%forward = 1
  step%backward = 2
  step%state_bytes = 16
  step%residual_bytes = 8
  costs%steps = c_loc(step)
  costs%step_count = 1
  calls%forward = c_funloc(forward)
  calls%record = c_funloc(record)
  calls%backward = c_funloc(backward)
  calls%save = c_funloc(save_state)
  calls%load = c_funloc(load_state)
  if (ckptc_plan_costs(plan, costs, 'revolve:20'//c_null_char, c_null_ptr, error) /= 0) error stop 'no plan'
  if (ckptc_execute(plan, calls, c_null_ptr, error) /= 0) error stop 'stopped'
  print '(a, f0.9, a, i0, a)', 'derivative ', by_angle, ', ', evaluations, ' evaluations'
  call ckptc_plan_free(plan)
end program
