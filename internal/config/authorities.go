package config

// The container image has no files except the programs, so the programs contain the authorities of the public web. They apply
// only where the system has none.
import _ "golang.org/x/crypto/x509roots/fallback"
