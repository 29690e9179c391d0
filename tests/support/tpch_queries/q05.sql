-- Revenue of a region's suppliers with customers of their own nation.
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
  FROM customer
  JOIN orders ON o_custkey = c_custkey
  JOIN lineitem ON l_orderkey = o_orderkey
  JOIN supplier ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
  JOIN nation ON n_nationkey = s_nationkey
  JOIN region ON r_regionkey = n_regionkey
 WHERE r_name = 'ASIA'
   AND o_orderdate >= DATE '1994-01-01'
   AND o_orderdate < DATE '1994-01-01' + INTERVAL 1 YEAR
 GROUP BY n_name
 ORDER BY revenue DESC, n_name
