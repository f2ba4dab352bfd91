-- Kinds of faults: statements before a first run, a line `---`, statements before a second one. Each ends with `;;`.
-- What needs MariaDB has that in its name.

=== unsigned keys at both ends
CREATE TABLE a1 (k BIGINT UNSIGNED PRIMARY KEY, v INT);;
INSERT INTO a1 VALUES (0, 1), (9223372036854775807, 2), (9223372036854775808, 3), (18446744073709551615, 4);;
---
UPDATE a1 SET k = 18446744073709551614 WHERE k = 0;;
DELETE FROM a1 WHERE k = 9223372036854775808;;
UPDATE a1 SET v = 9 WHERE k > 9223372036854775807;;

=== keys of bits and of bytes that end with zeros
CREATE TABLE a2 (k BIT(9), b BINARY(4), v INT, PRIMARY KEY (k, b));;
INSERT INTO a2 VALUES (0, X'01', 1), (511, X'00', 2), (256, X'01020300', 3);;
---
UPDATE a2 SET v = 7 WHERE b = X'01000000';;
DELETE FROM a2 WHERE k = 511;;
UPDATE a2 SET k = 1 WHERE k = 256;;

=== times below zero and beyond a day, as keys
CREATE TABLE a3 (k TIME(6) PRIMARY KEY, v INT);;
INSERT INTO a3 VALUES ('-00:00:00.000001', 1), ('-838:59:59', 2), ('23:59:59.999999', 3), ('00:00:00', 4);;
---
UPDATE a3 SET v = 9 WHERE k < 0;;
UPDATE a3 SET k = '-00:00:00.5' WHERE k = 0;;
DELETE FROM a3 WHERE k = '-838:59:59';;

=== dates that are none, in rows that are deleted and changed
SET SESSION sql_mode = 'ALLOW_INVALID_DATES';;
CREATE TABLE a4 (k INT PRIMARY KEY, d DATE NOT NULL, t DATETIME(3) NOT NULL, y YEAR NOT NULL);;
INSERT INTO a4 VALUES (1, '0000-00-00', '0000-00-00', 0), (2, '2020-02-31', '2020-00-00', 1901), (3, '2020-01-01', '2020-01-01', 2155);;
---
SET SESSION sql_mode = 'ALLOW_INVALID_DATES';;
DELETE FROM a4 WHERE k = 1;;
UPDATE a4 SET d = '2020-02-28', t = '2020-02-28 00:00:00.5' WHERE k = 2;;
UPDATE a4 SET d = '2020-03-01', y = 0 WHERE k = 3;;

=== labels in another order, from a place in the log on
CREATE TABLE a5 (k ENUM('a','b,c','d''e','') CHARACTER SET latin1 PRIMARY KEY, s SET('x','y','z'));;
INSERT INTO a5 VALUES ('a', 'x,z'), ('b,c', ''), ('', 'y');;
---
UPDATE a5 SET s = 'z' WHERE k = 'a';;
INSERT INTO a5 VALUES ('d''e', 'x,y,z');;
ALTER TABLE a5 MODIFY s SET('x','y','z','w');;
UPDATE a5 SET s = 'w,y' WHERE k = 'b,c';;
ALTER TABLE a5 MODIFY k ENUM('d''e','new','a','b,c','') CHARACTER SET latin1;;
INSERT INTO a5 VALUES ('new', 'w');;
DELETE FROM a5 WHERE k = 'a';;

=== texts of inherited character sets
CREATE TABLE a6 (k VARCHAR(9) PRIMARY KEY, l VARCHAR(9), g TEXT CHARACTER SET gbk) CHARACTER SET latin1;;
INSERT INTO a6 VALUES ('ä', '€œ', '汉字'), ('z', NULL, '');;
---
ALTER TABLE a6 ADD m VARCHAR(9), ADD n VARCHAR(9) CHARACTER SET utf8mb4;;
UPDATE a6 SET m = 'Ž', n = '😀';;
ALTER TABLE a6 DEFAULT CHARACTER SET cp1251;;
ALTER TABLE a6 ADD o CHAR(9);;
INSERT INTO a6 VALUES ('ö', '', NULL, 'ÿ', 'Ж', 'Ж');;

=== numbers with all digits
CREATE TABLE a7 (k INT PRIMARY KEY, f FLOAT, d DOUBLE, n DECIMAL(38,30), w DECIMAL(65,30));;
INSERT INTO a7 VALUES (1, 16777217, 0.1 + 0.2e0, 0.000000000000000000000000000001, -1e34), (2, -1.17549e-38, 5e-324, -0.5, 0);;
---
UPDATE a7 SET f = 3.40282e38, d = -1.7976931348623157e308 WHERE k = 1;;
INSERT INTO a7 SELECT 3, f, d, n, w FROM a7 WHERE k = 2;;

=== names are swapped between rows
CREATE TABLE b1 (k INT PRIMARY KEY, a INT, b INT, c VARCHAR(9));;
INSERT INTO b1 VALUES (1, 10, 20, 'x');;
---
INSERT INTO b1 VALUES (2, 11, 21, 'y');;
ALTER TABLE b1 CHANGE a b INT, CHANGE b a INT;;
INSERT INTO b1 (k, a, b, c) VALUES (3, 12, 22, 'z');;
UPDATE b1 SET a = 99 WHERE k = 2;;

=== a column goes and comes again, and the key is another
CREATE TABLE b2 (k INT PRIMARY KEY, a INT, u INT NOT NULL);;
INSERT INTO b2 VALUES (1, 5, 100), (2, 6, 200);;
---
UPDATE b2 SET a = 7 WHERE k = 1;;
ALTER TABLE b2 DROP a;;
ALTER TABLE b2 ADD a VARCHAR(5) FIRST;;
INSERT INTO b2 VALUES ('x', 3, 300);;
UPDATE b2 SET a = 'y' WHERE k = 1;;

=== a table that leaves, and another that takes its name
CREATE TABLE b3 (k INT PRIMARY KEY, v INT);;
INSERT INTO b3 VALUES (1, 1), (2, 2);;
---
INSERT INTO b3 VALUES (3, 3);;
CREATE TABLE `_b3_gho` LIKE b3;;
ALTER TABLE `_b3_gho` ADD w INT NOT NULL DEFAULT 4;;
INSERT INTO `_b3_gho` (k, v) SELECT k, v FROM b3;;
RENAME TABLE b3 TO `_b3_del`, `_b3_gho` TO b3;;
INSERT INTO b3 VALUES (4, 4, 5);;
DROP TABLE `_b3_del`;;
DELETE FROM b3 WHERE k = 1;;

=== statements that did nothing, and tables of one session
CREATE TABLE b4 (k INT PRIMARY KEY, v INT);;
INSERT INTO b4 VALUES (1, 1);;
---
CREATE TABLE IF NOT EXISTS b4 (z INT);;
CREATE TEMPORARY TABLE b4 (x INT, y INT, z INT);;
INSERT INTO b4 VALUES (1, 2, 3);;
ALTER TABLE b4 ADD q INT;;
DROP TEMPORARY TABLE b4;;
INSERT INTO b4 VALUES (2, 2);;
INSERT INTO b4 VALUES (3, 3);;

=== modes and default databases of sessions
CREATE TABLE b5 (k INT PRIMARY KEY);;
INSERT INTO b5 VALUES (1);;
---
SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES';;
ALTER TABLE "b5" ADD "x-y" VARCHAR(9);;
INSERT INTO b5 VALUES (2, '\');;
ALTER TABLE b5 ADD e ENUM('a\','b''');;
INSERT INTO b5 VALUES (3, 'z', 'a\');;
USE mysql;;
ALTER TABLE {db}.b5 ADD w INT;;
INSERT INTO {db}.b5 VALUES (4, '', 'b''', 5);;

=== statements in comments, and texts that look like statements
CREATE TABLE b6 (k INT PRIMARY KEY, v VARCHAR(80));;
INSERT INTO b6 VALUES (1, 'x');;
---
/* ALTER TABLE b6 DROP v */ INSERT INTO b6 VALUES (2, 'ALTER TABLE b6 DROP v');;
-- ALTER TABLE b6 DROP v
ALTER /*!40000 TABLE b6 */ ADD w INT /*!40000 UNSIGNED */;;
CREATE PROCEDURE b6p() BEGIN ALTER TABLE b6 DROP v; END;;
INSERT INTO b6 VALUES (3, 'y', 4294967295);;
DROP PROCEDURE b6p;;
/*!99999 ALTER TABLE b6 DROP v */;;

=== names of all letters
CREATE TABLE `b.7 'x"` (`k.1` INT PRIMARY KEY, `a``b` INT, `ü-` INT);;
INSERT INTO `b.7 'x"` VALUES (1, 2, 3);;
---
UPDATE `b.7 'x"` SET `a``b` = 7;;
ALTER TABLE `b.7 'x"` ADD `日本` INT AFTER `k.1`;;
INSERT INTO `b.7 'x"` VALUES (2, 3, 4, 5);;

=== keys that move in one statement
CREATE TABLE c1 (k INT PRIMARY KEY, v VARCHAR(9));;
INSERT INTO c1 VALUES (1, 'a'), (2, 'b'), (3, 'c'), (10, 'd');;
---
UPDATE c1 SET k = k + 1 ORDER BY k DESC;;
UPDATE c1 SET k = -k WHERE k = 2;;
UPDATE c1 SET k = 2 WHERE k = 3;;
UPDATE c1 SET k = 3 WHERE k = -2;;
REPLACE INTO c1 VALUES (4, 'r'), (4, 's');;
INSERT INTO c1 VALUES (11, 't') ON DUPLICATE KEY UPDATE k = 12, v = 'u';;

=== keys that change by case and by a blank
CREATE TABLE c2 (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT);;
INSERT INTO c2 VALUES ('a', 1), ('b', 2), ('ss', 3), ('é', 4);;
---
UPDATE c2 SET k = 'A' WHERE k = 'a';;
UPDATE c2 SET k = 'b ' WHERE k = 'b';;
REPLACE INTO c2 VALUES ('SS', 9);;
DELETE FROM c2 WHERE k = 'E';;

=== what is rolled back, in part and whole
CREATE TABLE c3 (k INT PRIMARY KEY) ENGINE InnoDB;;
CREATE TABLE c3m (k INT PRIMARY KEY) ENGINE MyISAM;;
---
BEGIN;;
INSERT INTO c3 VALUES (1);;
SAVEPOINT a;;
INSERT INTO c3 VALUES (2);;
ROLLBACK TO a;;
INSERT INTO c3 VALUES (3);;
COMMIT;;
BEGIN;;
INSERT INTO c3 VALUES (4);;
ROLLBACK;;
INSERT INTO c3m VALUES (1), (2);;
XA START 'x';;
INSERT INTO c3 VALUES (5);;
XA END 'x';;
XA PREPARE 'x';;
XA COMMIT 'x';;
XA START 'y';;
INSERT INTO c3 VALUES (6);;
XA END 'y';;
XA PREPARE 'y';;
XA ROLLBACK 'y';;

=== tables that are emptied
CREATE TABLE c4 (k INT PRIMARY KEY, v INT);;
INSERT INTO c4 VALUES (1, 1), (2, 2);;
---
INSERT INTO c4 VALUES (3, 3);;
TRUNCATE c4;;
INSERT INTO c4 VALUES (2, 20);;
DELETE FROM c4;;
INSERT INTO c4 VALUES (5, 5);;

=== columns that the server fills
CREATE TABLE c5 (k INT PRIMARY KEY, v INT, t VARCHAR(9));;
INSERT INTO c5 VALUES (1, 1, 'abcdefghi'), (2, 300, NULL);;
---
SET SESSION sql_mode = '';;
ALTER TABLE c5 ADD d INT NOT NULL DEFAULT 7;;
ALTER TABLE c5 MODIFY v TINYINT;;
ALTER TABLE c5 MODIFY t VARCHAR(3) NOT NULL;;
INSERT INTO c5 VALUES (3, 5, 'x', 6);;

=== tables without a primary key
CREATE TABLE c6 (a INT NOT NULL, b VARCHAR(5) NOT NULL, v INT, UNIQUE u (b, a), UNIQUE w (v));;
INSERT INTO c6 VALUES (1, 'x', 1), (1, 'y', NULL), (2, 'x', NULL);;
---
UPDATE c6 SET v = 9 WHERE b = 'y';;
DELETE FROM c6 WHERE a = 2;;
UPDATE c6 SET a = 5 WHERE b = 'x';;

=== chunks of keys that are skewed
CREATE TABLE c7 (a INT, b BIGINT, PRIMARY KEY (a, b));;
INSERT INTO c7 VALUES (-2147483648, -9223372036854775808), (-2147483648, 0), (-2147483648, 1), (-2147483648, 2), (-2147483648, 9223372036854775807), (0, -9223372036854775808), (0, 0), (0, 1), (0, 2), (0, 9223372036854775807), (2147483647, -9223372036854775808), (2147483647, 0), (2147483647, 1), (2147483647, 2), (2147483647, 9223372036854775807);;
---
DELETE FROM c7 WHERE b = 1;;
UPDATE c7 SET a = 1 WHERE a = 0;;

=== types of MariaDB as keys (MariaDB)
CREATE TABLE d1 (u UUID, i INET6, v INET4, PRIMARY KEY (u, i));;
INSERT INTO d1 VALUES ('123e4567-e89b-12d3-a456-426655440000', '::1', '1.2.3.4'), ('00000000-0000-0000-0000-000000000000', '::', NULL), ('123e4567-e89b-42d3-a456-426655440000', '2001:db8::', '0.0.0.0');;
---
UPDATE d1 SET v = '255.255.255.255';;
UPDATE d1 SET i = 'ffff::1' WHERE i = '::1';;
DELETE FROM d1 WHERE i = '::';;

=== columns that no query names (MariaDB)
CREATE TABLE d2 (k INT PRIMARY KEY, a INT INVISIBLE, t TEXT, UNIQUE (t));;
INSERT INTO d2 (k, a, t) VALUES (1, 10, 'x'), (2, 20, 'y');;
CREATE SEQUENCE d2s;;
SELECT NEXTVAL(d2s);;
---
UPDATE d2 SET a = 11 WHERE k = 1;;
DELETE FROM d2 WHERE k = 2;;
SELECT NEXTVAL(d2s);;
INSERT INTO d2 (k, t) VALUES (3, 'z');;
ALTER TABLE d2 ADD b INT INVISIBLE;;
INSERT INTO d2 (k, t, b) VALUES (4, 'w', 5);;

=== a table that is made of rows (MariaDB)
CREATE TABLE d3 (k INT PRIMARY KEY);;
INSERT INTO d3 VALUES (1);;
---
CREATE TABLE d3a (PRIMARY KEY (k)) AS SELECT k, k * 2 AS v FROM d3;;
INSERT INTO d3a VALUES (7, 8);;
CREATE OR REPLACE TABLE d3a (k INT PRIMARY KEY, w INT);;
INSERT INTO d3a VALUES (9, 9);;
