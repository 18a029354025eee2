//! Leaving: an order that is under way is delivered first.

use super::settled::Delivery;
use super::{Action, App, Order, OrderResult};

impl App {
    /// Leaves, or waits for the orders that are under way. Asked a second time, it leaves at once.
    pub(super) fn leave(&mut self, actions: &mut Vec<Action>) {
        if self.open_orders == 0 || self.is_leaving {
            return actions.push(Action::Leave);
        }
        self.is_leaving = true;
        self.inform("an order is being delivered: top leaves once it is done; q leaves at once");
    }

    /// Takes note of the result of an order. A user who is leaving is kept by a failure, which must be read.
    pub(super) fn done(&mut self, result: OrderResult, actions: &mut Vec<Action>) {
        let OrderResult { order, lines } = result;
        self.open_orders = self.open_orders.saturating_sub(1);
        let end = match &lines {
            Ok(_) => Delivery::Taken,
            Err(failed) if failed.is_unclear => Delivery::Unclear,
            Err(_) => Delivery::Refused,
        };
        if let Order::Answer { ask, reply } = &order {
            self.answered(ask, reply, end);
        }
        let is_error = end != Delivery::Taken;
        self.is_leaving &= !is_error;
        let mut lines = lines.unwrap_or_else(|failed| failed.lines);
        // A message that may have arrived is not put where Enter would send it again.
        let is_kept = match end {
            Delivery::Taken => false,
            Delivery::Refused => !self.type_again(order),
            Delivery::Unclear => self.keep_message(order),
        };
        if is_kept {
            lines.push("s: the text of the message is kept".to_owned());
        }
        self.notice = Some(super::Notice { lines, is_error });
        if self.is_leaving && self.open_orders == 0 {
            actions.push(Action::Leave);
        }
    }
}
