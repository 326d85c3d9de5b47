# Standardises the columns of a table. The options of ckptc choose the columns:
#     ckptc run -i people.csv --columns 'age,height (cm)' people.ck
sub { mean axis=0 }
div { std axis=0 }
