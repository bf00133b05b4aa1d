//! Notes: the cloud's only store of metadata (vco-api.md 4.8), here those of objectspaces and
//! cloudspaces.
//!
//! Everybody with access sees and edits them: nothing secret belongs there. Titles need not be
//! unique, and two writers can both make one.

use serde_json::{Value, json};

use super::call::{Body, Method};
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, ObjectspaceId};

/// A note on something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// Its id.
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its text.
    pub content: Option<String>,
}

impl Note {
    /// Reads a row of a list.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        let text = |key| wire::text(row, key);
        Self { id: text("id"), title: text("title"), content: text("content") }
    }
}

impl Customer {
    /// The notes of an objectspace.
    pub async fn objectspace_notes(&self, id: &ObjectspaceId) -> Result<Vec<Note>, Error> {
        let reply = self.send(self.read_objectspace(id, "list notes", &["notes"])).await?;
        Ok(reply.rows("notes")?.into_iter().map(Note::read).collect())
    }

    /// Adds a note. The reply names nothing (vco-api.md 4.8); it may not be repeated, since that
    /// would make a second one: look for its title instead.
    pub async fn create_objectspace_note(
        &self,
        id: &ObjectspaceId,
        title: &str,
        content: &str,
    ) -> Result<(), Error> {
        let call = self
            .change_objectspace(Method::Post, id, "create the note", &["notes"])
            .body(Body::Json(json!({"title": title, "content": content})));
        self.send(call).await.map(|_| ())
    }

    /// Deletes a note; one that is not there counts as deleted. It may be repeated.
    pub async fn delete_objectspace_note(
        &self,
        id: &ObjectspaceId,
        note: &str,
    ) -> Result<(), Error> {
        let path = ["notes", note];
        let call = self.change_objectspace(Method::Delete, id, "delete the note", &path);
        self.send_delete(call).await
    }

    /// The notes of a cloudspace.
    pub async fn cloudspace_notes(&self, id: &CloudspaceId) -> Result<Vec<Note>, Error> {
        let reply = self.send(self.read_in(id, "list notes", &["notes"])).await?;
        Ok(reply.rows("notes")?.into_iter().map(Note::read).collect())
    }

    /// Adds a note, see [`Customer::create_objectspace_note`].
    pub async fn create_cloudspace_note(
        &self,
        id: &CloudspaceId,
        title: &str,
        content: &str,
    ) -> Result<(), Error> {
        let call = self
            .change_in(Method::Post, id, "create the note", &["notes"])
            .body(Body::Json(json!({"title": title, "content": content})));
        self.send(call).await.map(|_| ())
    }

    /// Deletes a note; one that is not there counts as deleted. It may be repeated.
    pub async fn delete_cloudspace_note(&self, id: &CloudspaceId, note: &str) -> Result<(), Error> {
        let call = self.change_in(Method::Delete, id, "delete the note", &["notes", note]);
        self.send_delete(call).await
    }
}
