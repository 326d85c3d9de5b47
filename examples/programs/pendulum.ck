# Damped pendulums, whose time step another program computes: row 0 has the angles, row 1 the speeds.
# The program in five languages: pendulum.c, pendulum_so.c, pendulum.f90, pendulum.pl, pendulum.py, pendulum.sh.
input x: f64[2,3]
program step(k): same
param k = [9.81, 4, 1]
repeat 20 { step k }
sum
