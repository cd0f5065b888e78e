// Package fleet knows who holds which table: every client of a route server, by what it asks for and what it reports.
package fleet
