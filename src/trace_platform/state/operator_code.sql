-- name: keep!
-- The same content is one row, however many jobs and versions name it.
INSERT INTO operator_code (digest, content) VALUES (:digest, :content) ON CONFLICT DO NOTHING;

-- name: content$
SELECT content FROM operator_code WHERE digest = :digest;
