-- The customers who sent back most in a quarter.
SELECT c_custkey,
       c_name,
       sum(l_extendedprice * (1 - l_discount)) AS revenue,
       c_acctbal,
       n_name,
       c_address,
       c_phone,
       c_comment
  FROM customer
  JOIN orders ON o_custkey = c_custkey
  JOIN lineitem ON l_orderkey = o_orderkey
  JOIN nation ON n_nationkey = c_nationkey
 WHERE o_orderdate >= DATE '1993-10-01'
   AND o_orderdate < DATE '1993-10-01' + INTERVAL 3 MONTH
   AND l_returnflag = 'R'
 GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
 ORDER BY revenue DESC, c_custkey
 LIMIT 20
