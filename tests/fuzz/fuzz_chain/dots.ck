use (x @ ([1, 2] * ..)
ea