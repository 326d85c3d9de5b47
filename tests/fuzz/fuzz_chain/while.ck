program step(): same
const one = 1
name k
repeat while { repeat while { sub 3 } max=2 { mul 0.5 }; use k; norm; dropout 0.5 seed=2 } max=3 {
    step; dropout 0.5; repeat while {} max=1 { step }; name v; use k; sub one; name k; use v
}
dropout 0.5
step
