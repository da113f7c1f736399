//! `/healthz`, `/livez` and `/readyz`.
